"""The command `rloo-verify check math`: grade labelled cases, or explain one verdict."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from rloo_verify.errors import TaskError

app = typer.Typer(help="Check the checkers.", no_args_is_help=True)

MAX_SHOWN = 40


@app.callback()
def _group() -> None:
    """Check the checkers."""  # a callback keeps `math` a subcommand while it is the only one


@app.command("math")
def math_command(
    cases: Annotated[Path | None, typer.Option(help="A JSONL file of cases: gold, response, expected.")] = None,
    gold: Annotated[str | None, typer.Option(help="One reference answer, with --response.")] = None,
    response: Annotated[str | None, typer.Option(help="One completion.")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show every step up to the verdict.")] = False,
    mode: Annotated[str, typer.Option(help="strict or lenient.")] = "lenient",
    peers: Annotated[bool, typer.Option("--peers", help="Run Math-Verify beside it, where it is installed.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Grade the math checker on labelled cases (--cases), or judge one answer (--gold and --response)."""
    if cases is not None and gold is None and response is None:
        _grade(cases, mode, peers=peers, as_json=as_json)
    elif cases is None and gold is not None and response is not None:
        _judge(gold, response, mode, explain=explain, as_json=as_json)
    else:
        raise TaskError("give either --cases FILE, or --gold and --response")


def _grade(path: Path, mode: str, *, peers: bool, as_json: bool) -> None:
    from rloo_verify.checkers.grading import grade, grade_with, load_labelled, summary
    from rloo_verify.checkers.math_verify_peer import available, judge

    labelled = load_labelled(path)
    results: dict[str, Any] = {"rloo_verify": summary(grade(labelled, mode))}
    why_not = available() if peers else None
    if peers and why_not is None:
        results["math_verify"] = summary(grade_with(labelled, lambda case: judge(str(case.gold), case.response)))
    if as_json:
        others = {name: result for name, result in results.items() if name != "rloo_verify"}
        print(json.dumps({**results["rloo_verify"], **({"peers": others} if peers else {})}))
        return
    for name, result in results.items():
        _print_summary(name, result)
    if why_not is not None:
        print(f"\n{why_not}")


def _print_summary(name: str, result: dict[str, Any]) -> None:
    count, seconds = result["cases"], result["seconds"]
    print(
        f"\n{name}: {result['agree']} of {count} undisputed cases agree ({100 * result['agree'] / max(count, 1):.2f}%)"
    )
    print(
        f"  wrong answers rewarded {result['false_pass']}, right answers refused {result['false_fail']},"
        f" errors {result['errors']}, over 1 s {result['over_1s']}"
    )
    print(f"  {count / seconds if seconds else 0:.0f} checks a second, median {result['median_ms']:.3f} ms")
    print(f"  debatable, not counted: {result['debatable']['agree']} of {result['debatable']['cases']} agree")
    for category, counts in result["per_category"].items():
        if counts["agree"] < counts["cases"]:
            wrong = ", ".join(f"{key} {counts[key]}" for key in ("false_pass", "false_fail", "errors") if counts[key])
            print(f"  {category}: {counts['agree']} of {counts['cases']} agree; {wrong}")
    for one in result["disagreements"][:MAX_SHOWN]:
        shown = "" if one["answer"] is None else f", read {one['answer'][:60]!r}"
        print(f"  - {one['id']} {one['verdict']}: gold {str(one['gold'])[:60]!r}{shown}; {one['why'][:120]}")
    if len(result["disagreements"]) > MAX_SHOWN:
        print(f"  - and {len(result['disagreements']) - MAX_SHOWN} more")


def _judge(gold: str, response: str, mode: str, *, explain: bool, as_json: bool) -> None:
    from rloo_verify.checkers.explain import explain as explained

    steps = explained(gold, response, mode)
    if not explain:
        steps = {name: steps[name] for name in ("verdict", "detail")}
    if as_json:
        print(json.dumps(steps))
        return
    width = max(map(len, steps))
    for name, found in steps.items():
        print(f"{name.replace('_', ' '):{width}}  {found}")
