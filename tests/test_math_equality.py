"""Every rule of docs/math-equality.md, read from its tables: what stands there is what the checker does."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from rloo_verify.checkers.math import check
from rloo_verify.types import Outcome

PAGE = Path(__file__).parents[1] / "docs" / "math-equality.md"


def rules() -> Iterator[tuple[str, str, list[str], list[str]]]:
    """Rule, reference, accepted and refused answers of each row of the tables with these four columns."""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        # A bar inside `code` belongs to the formula.
        cells = [cell.strip() for cell in re.findall(r"\|((?:`[^`]*`|[^|`])*)(?=\|)", line)]
        if len(cells) == 4 and (spans := re.findall(r"`([^`]*)`", cells[1])):
            yield cells[0], spans[0], re.findall(r"`([^`]*)`", cells[2]), re.findall(r"`([^`]*)`", cells[3])


@pytest.mark.parametrize(("rule", "reference", "accepted", "refused"), rules(), ids=lambda value: str(value)[:60])
def test_the_rule_holds(rule: str, reference: str, accepted: list[str], refused: list[str]) -> None:
    assert accepted, f"the rule {rule!r} shows nothing that it accepts"
    verdicts = {answer: check(rf"\boxed{{{answer}}}", reference, {}) for answer in (*accepted, *refused, reference)}
    wrong = [answer for answer in (*accepted, reference) if verdicts[answer].outcome is not Outcome.PASS]
    paid = [answer for answer in refused if verdicts[answer].outcome is not Outcome.FAIL]
    assert (wrong, paid) == ([], []), f"{rule}: {[verdicts[answer] for answer in (*wrong, *paid)]}"


def test_the_page_has_a_rule_for_every_type() -> None:
    said = PAGE.read_text(encoding="utf-8").casefold()
    kinds = (
        "integers decimals fractions mixed percentages money unit powers base complex plus-minus radicals expressions "
        "polynomials equations inequalities intervals unions sets described tuples lists matrices letter words dates "
        "times ratios degrees"
    )
    assert [kind for kind in kinds.split() if kind not in said] == []
    assert len(list(rules())) > 55
