"""The commands `rloo-verify sandbox build | list | doctor | test`."""

import time
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from rloo_verify.errors import SandboxError
from rloo_verify.sandbox.settings import SandboxSettings, backend_of, find_image, image_names

app = typer.Typer(help="Build, list, examine and try the sandboxes that run untrusted programs.", no_args_is_help=True)

Backend = Annotated[str, typer.Option(help="auto, docker or bwrap.")]
Runtime = Annotated[str, typer.Option(help="OCI runtime of the Docker backend, for instance runsc.")]
Image = Annotated[str, typer.Argument(help="A sandbox's name, or the path of its folder.")]


@app.command("list")
def list_command() -> None:
    """List the sandboxes and whether the Docker engine has their images."""
    from rloo_verify.sandbox.docker import connect
    from rloo_verify.sandbox.images import find_built

    try:
        client: Any = connect()
    except SandboxError:
        client = None
    for name in image_names():
        image = find_image(name)
        built = None if client is None else find_built(client, image)
        state = "no Docker engine" if client is None else built or f"not built: rloo-verify sandbox build {name}"
        typer.echo(f"{name:12}  {image.summary}  ({state})")


@app.command("build")
def build_command(
    name: Image = "python",
    source: Annotated[
        str, typer.Option("--from", help="registry (the Dockerfile), debian (debootstrap), host, or auto.")
    ] = "auto",
) -> None:
    """Make the image of a sandbox. Its tag is a hash of the sandbox's folder and of what it is made from."""
    from rloo_verify.sandbox.docker import connect
    from rloo_verify.sandbox.images import build

    started = time.monotonic()
    tag = build(connect(), find_image(name), source)
    typer.echo(f"{tag}, made in {time.monotonic() - started:.0f} s")


@app.command("doctor")
def doctor_command() -> None:
    """Say which backends work here, one line each, with what to do about the others."""
    from rloo_verify.sandbox.box import BoxError
    from rloo_verify.sandbox.runner import choose_backend

    for name, backend_name, runtime in (("docker", "docker", "runc"), ("runsc", "docker", "runsc"), ("bwrap",) * 3):
        settings = _settings(backend_name, runtime, "python")
        try:
            backend, _ = choose_backend(settings, find_image("python"))
            started = time.monotonic()
            box = backend.start()
            seconds = time.monotonic() - started
            box.close()
            backend.close()
            typer.echo(f"ok      {name}: Python {box.python} inside, a sandbox starts in {seconds:.2f} s")
        except (SandboxError, BoxError) as error:
            typer.echo(f"missing {name}: {error}")


@app.command("test")
def try_command(
    name: Image = "python",
    backend: Backend = "auto",
    runtime: Runtime = "runc",
    runs: Annotated[int, typer.Option(min=1, help="Trivial programs to time.")] = 100,
) -> None:
    """Run known-good and known-bad programs, try to break out, and time trivial tests; exit 1 if anything is wrong."""
    from rloo_verify.sandbox.runner import Sandbox
    from rloo_verify.sandbox.self_test import self_test

    with Sandbox(_settings(backend, runtime, name)) as sandbox:
        typer.echo(sandbox.why)
        findings = list(self_test(sandbox))
        started = time.monotonic()
        for _ in _trivial_runs(sandbox, runs):
            pass
        rate = runs / (time.monotonic() - started)
    for finding in findings:
        typer.echo(f"- {finding}")
    typer.echo(f"{len(findings)} findings; {rate:.0f} trivial tests a second")
    if findings:
        raise typer.Exit(1)


def _trivial_runs(sandbox: Any, runs: int) -> Iterator[None]:
    from rloo_verify.sandbox.box import Job

    for _ in range(runs):
        sandbox.run(Job({"mode": "script", "sources": ["print(int(input()) + 1)"]}, stdin=b"41\n"))
        yield


def _settings(backend: str, runtime: str, image: str) -> SandboxSettings:
    return SandboxSettings(backend=backend_of(backend, "--backend"), runtime=runtime, image=image)
