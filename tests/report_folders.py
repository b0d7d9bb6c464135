"""Folders to make reports of, as the trainer, the evaluation and the comparison write them; and what a report holds."""

import json
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from groups import judged_group
from tiny import character_tokenizer

from rloo_verify.compare import compare_samples
from rloo_verify.evaluate import evaluate_groups
from rloo_verify.metrics import step_metrics
from rloo_verify.records import group_records
from rloo_verify.samples import group_samples, read_samples
from rloo_verify.types import Group
from rloo_verify.update import Gap, Update

CONFIG = "[run]\nname = 'tiny'\nsteps = 3\n"
HOSTILE = (
    "</script><script>document.title='owned'</script><img src=http://evil.example/x onerror=document.title='owned'>"
    "\"'&{{ 7 * 7 }}</pre><!--\u2028\u202e\x1b[2J\ud800"
)
"""Ends a script element, starts tags, has a template's braces, a line separator, a mark that reorders text, an escape
sequence that clears a terminal, and half of a surrogate pair."""


class Page(HTMLParser):
    """A report as a browser would read it: tags, attributes, text, and the data of the scripts; tags must nest."""

    VOID = ("meta", "link", "img", "br", "hr", "input")

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.scripts: list[str] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(html)
        assert self.open == []
        self.data: dict[str, Any] = json.loads(self.scripts[0])

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag == "script":
            self.scripts.append("")
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] == ["script"]:
            self.scripts[-1] += data
        elif self.open[-1:] != ["style"]:
            self.text += data

    def chart(self, title: str) -> dict[str, Any]:
        """The data of a chart."""
        return next(chart for chart in self.data["charts"] if chart["title"] == title)

    def curve(self, title: str, label: str) -> list[float | None]:
        """The values of a curve."""
        return next(series["values"] for series in self.chart(title)["series"] if series["label"] == label)


def page_at(path: Path) -> Page:
    """Reads a report."""
    return Page(path.read_text(encoding="utf-8"))


def write_run(folder: Path, config: str = CONFIG) -> Path:
    """A run folder in which nothing has happened yet."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.toml").write_text(config, encoding="utf-8")
    return folder


def write_steps(folder: Path, groups_of_steps: Sequence[Sequence[Group]]) -> None:
    """Metrics and rollouts of steps 1, 2, ..."""
    (folder / "rollouts").mkdir()
    update = Update(updated=True, grad_norm=1.0, lr=1e-3, completions=4, tokens=12, gap=Gap(1e-7, 1e-6))
    rows = []
    for step, groups in enumerate(groups_of_steps, start=1):
        rows.append(step_metrics(step, groups, update, {"sample": 1.0, "learn": 0.5}))
        lines = group_records(groups, character_tokenizer(), step=step)
        (folder / "rollouts" / f"step-{step:06d}.jsonl").write_text("".join(f"{line}\n" for line in lines))
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_long_run(folder: Path, steps: int, *, problems: int = 2, group_size: int = 4, text: str = "4") -> Path:
    """A run of many steps, whose problems come again every ten steps."""
    write_run(folder, CONFIG.replace("3", str(steps)))
    groups = [judged_group(f"long/train/{i}", "pf" * (group_size // 2), text=text) for i in range(10 * problems)]
    tokenizer = character_tokenizer()
    lines = [[line.rstrip() for line in group_records([group], tokenizer)] for group in groups]
    update = Update(updated=True, grad_norm=1.0, lr=1e-3, completions=4, tokens=12, gap=Gap(1e-7, 1e-6))
    row = step_metrics(0, groups[:problems], update, {"sample": 1.0, "learn": 0.5})
    (folder / "rollouts").mkdir()
    with (folder / "metrics.jsonl").open("w") as metrics:
        for step in range(1, steps + 1):
            metrics.write(json.dumps({**row, "step": step, "reward": step / steps}) + "\n")
            first = step % 10 * problems
            rollouts = "\n".join(line for group in lines[first : first + problems] for line in group)
            (folder / "rollouts" / f"step-{step:06d}.jsonl").write_text(
                rollouts.replace("{", f'{{"step": {step}, ') + "\n"
            )
    return folder


def write_evaluations(folder: Path, **rates: list[float | None]) -> None:
    """Evaluations at steps 0, 1, ...; a rate's interval is 0.1 to each side."""
    (folder / "eval").mkdir()
    for step in range(len(next(iter(rates.values())))):
        values = {f"pass@{key.removeprefix('at_')}": value[step] for key, value in rates.items()}
        intervals = {key: None if value is None else [value - 0.1, value + 0.1] for key, value in values.items()}
        content = {"step": step, **values, "intervals": intervals, "seconds": 1.0}
        (folder / "eval" / f"step-{step:06d}.json").write_text(json.dumps(content))


def write_evaluation(folder: Path, groups: Sequence[Group], ks: Sequence[int] = (1,), *, finished: bool = True) -> Path:
    """An evaluation folder."""
    folder.mkdir(parents=True)
    settings = {"task": "tiny", "model": "some/model-1b", "split": "test", "n": 4, "k": list(ks), "temperature": 1.0}
    (folder / "settings.json").write_text(json.dumps(settings))
    lines = [sample.line() for sample in group_samples(groups)]
    (folder / "samples.jsonl").write_text("".join(f"{line}\n" for line in lines))
    if finished:
        summary = {**settings, **evaluate_groups(groups, ks).as_json()}
        (folder / "summary.json").write_text(json.dumps(summary))
    return folder


def write_comparison(folder: Path, a: Path, b: Path) -> Path:
    """The compare.json of two evaluation folders."""
    folder.mkdir(parents=True)
    samples = [read_samples(side / "samples.jsonl") for side in (a, b)]
    found = compare_samples(*samples, names=(a.name, b.name))
    (folder / "compare.json").write_text(json.dumps(found.as_json()))
    return folder
