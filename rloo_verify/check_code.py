"""The command `rloo-verify check code`: audits the code grader with programs whose rewards are known."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from rloo_verify.errors import ConfigError

BACKENDS = ("auto", "docker", "bwrap", "runsc")


def check_code(
    cases: Annotated[Path, typer.Option("--cases", help="A JSONL file of programs with their expected rewards.")],
    backend: Annotated[str, typer.Option(help="auto, docker, bwrap or runsc (Docker with gVisor).")] = "auto",
    image: Annotated[str, typer.Option(help="A sandbox's name or folder.")] = "python",
    checkers: Annotated[
        Path | None, typer.Option(help="A Python file whose functions `compare = checker:NAME` names.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Grade programs with known rewards and print agreement, false passes, false fails, errors and what was left."""
    from rloo_verify.grading.audit import audit, read_cases
    from rloo_verify.grading.output_checkers import load_checkers
    from rloo_verify.sandbox.runner import Sandbox
    from rloo_verify.sandbox.settings import SandboxSettings

    if backend not in BACKENDS:
        raise ConfigError(f"--backend {backend}: must be one of {', '.join(BACKENDS)}")
    rows = read_cases(cases)
    kind: Any = "docker" if backend == "runsc" else backend
    runtime = "runsc" if backend == "runsc" else "runc"
    with Sandbox(SandboxSettings(backend=kind, runtime=runtime, image=image)) as sandbox:
        report = audit(rows, sandbox, load_checkers(checkers))
    if backend == "runsc":
        report.backend = "runsc"
    if as_json:
        print(json.dumps(report.as_json()))
    else:
        for entry in report.disagreements:
            print(f"- {entry['id']}: {entry['kind']}, {entry.get('verdict', '')} {entry['detail']}")
        print(
            f"{report.backend}: {report.cases} cases, {report.agree} agree, {report.false_pass} false passes, "
            f"{report.false_fail} false fails, {report.errors} errors, {report.invariants_broken} invariants broken; "
            f"{report.seconds:.1f} s, {report.tests / max(report.seconds, 1e-9):.0f} tests a second"
        )
    if report.disagreements:
        raise typer.Exit(1)
