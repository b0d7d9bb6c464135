"""The command line: rloo-verify train | eval | tasks | check | view | doctor."""

import os

# Before torch loads: OpenMP threads that spin while they wait steal the cores from the verifier and the engine, and
# torch's C++ side prints warnings into the live table.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("KMP_BLOCKTIME", "0")
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")

import logging
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from rloo_verify import check_cli, sandbox_cli, tasks_cli
from rloo_verify.check_code import check_code
from rloo_verify.compare_cli import compare
from rloo_verify.errors import ConfigError, RlooVerifyError
from rloo_verify.eval_cli import evaluate
from rloo_verify.score_cli import score
from rloo_verify.view_cli import view

INTERRUPTED = 130
USER_ERROR = 2

app = typer.Typer(
    help="Train reasoning models on verifiable tasks with exact RLOO, and measure pass rates.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.add_typer(tasks_cli.app, name="tasks")
app.add_typer(check_cli.app, name="check")
check_cli.app.command("code")(check_code)
app.command("eval")(evaluate)
app.command()(score)
app.command()(compare)
app.command()(view)
app.add_typer(sandbox_cli.app, name="sandbox")

OVERRIDES = {"allow_extra_args": True, "ignore_unknown_options": True}


@app.callback()
def _options(
    debug: Annotated[bool, typer.Option(help="Show tracebacks and debug logs.")] = False,
) -> None:
    logging.basicConfig(
        level=logging.DEBUG if debug else logging.INFO if _leads() else logging.ERROR,
        format="%(message)s",
        stream=sys.stderr,
        force=True,
    )
    for noisy in ("httpx", "httpx2", "urllib3", "filelock", "datasets", "fsspec", "asyncio"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


@app.command(context_settings=OVERRIDES)
def train(
    context: typer.Context,
    config: Annotated[str, typer.Argument(help="A TOML file, or the name of a built-in config such as quickstart.")],
    fresh: Annotated[bool, typer.Option("--fresh", help="Delete the run folder and start over.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Validate everything and print the config.")] = False,
) -> None:
    """Train a policy, or go on where the same command stopped.

    Any key of the config can be set on the command line: --run.steps 50 --learner.lr 1e-6
    """
    from rloo_verify.configfile import dump_config, find_config, load_config
    from rloo_verify.models import quiet_libraries

    if config.startswith("--"):
        raise ConfigError(f"the config comes first: rloo-verify train CONFIG {config} VALUE ...")
    settings = load_config(find_config(config), context.args)
    quiet_libraries()
    if dry_run and _leads():
        from rloo_verify.setup import Parts, choose_engine

        problem = Parts(settings).check()
        print(dump_config(settings))
        print(f"# {choose_engine(settings.policy.engine)[1]}")
        print(f"# first prompt: {problem.id}, {len(problem.prompt_token_ids_T)} tokens")
    if dry_run:
        return
    from rloo_verify.collective import follow
    from rloo_verify.parallel import joined
    from rloo_verify.progress import Progress
    from rloo_verify.setup import Parts
    from rloo_verify.train import train as run_training

    console = Console(soft_wrap=True)
    folder = Path(settings.run.out) / settings.run.name
    try:
        with joined() as world:
            if not world.leads:
                follow(world, lambda: Parts(settings, world).learner)
                return
            summary = run_training(settings, Progress(console), fresh=fresh, world=world)
    except KeyboardInterrupt:
        console.print(f"interrupted; {folder} is saved, the same command goes on from there")
        raise typer.Exit(INTERRUPTED) from None
    for rate in (key for key in summary if "@" in key):
        before, after = summary[rate]["before"], summary[rate]["after"]
        texts = ["n/a" if value is None else f"[bold]{value:.3f}[/bold]" for value in (before, after)]
        console.print(f"held-out {rate}: {texts[0]} before, {texts[1]} after")
    console.print(f"{summary['steps']} steps in {summary['seconds']:.0f} s; report: {folder / 'report.html'}")


@app.command()
def doctor() -> None:
    """Say what works on this machine."""
    from rloo_verify.doctor import examine

    console = Console(soft_wrap=True)
    for finding in examine():
        console.print(
            f"{'[green]ok[/green]     ' if finding.ok else '[yellow]missing[/yellow]'} {finding.what}: ", end=""
        )
        console.print(finding.detail, markup=False, highlight=False)


def _leads() -> bool:
    """Whether this process speaks: under torchrun the first one only."""
    return os.environ.get("RANK", "0") == "0" or os.environ.get("WORLD_SIZE", "1") == "1"


def main(arguments: list[str] | None = None) -> Any:
    """Runs the command line: user errors become one sentence on standard error and exit code 2."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if "--debug" in arguments:  # wherever it was typed
        arguments = ["--debug", *(argument for argument in arguments if argument != "--debug")]
    try:
        return app(arguments)
    except RlooVerifyError as error:
        if "--debug" in arguments:
            raise
        for line in str(error).splitlines() if _leads() else ():
            print(f"error: {line}", file=sys.stderr)
        sys.exit(USER_ERROR)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
