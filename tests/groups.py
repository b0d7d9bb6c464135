"""Judged groups from a string: one letter a completion, p(ass), f(ail) or e(rror)."""

from collections.abc import Sequence

from rloo_verify.types import Completion, FinishReason, Group, Outcome, Problem, Verdict

VERDICTS = {
    "p": Verdict(Outcome.PASS, "correct"),
    "f": Verdict(Outcome.FAIL, "wrong_answer"),
    "e": Verdict(Outcome.ERROR, "checker_crashed", "exit code 7"),
}


def judged_group(
    name: str, outcomes: str, *, lengths: Sequence[int] = (), cut: str = "", text: str = "4", version: int = 0
) -> Group:
    """A group whose i-th completion has `lengths[i]` tokens (default 3), cut at the limit where `cut[i]` is `x`."""
    problem = Problem(name, "tiny", (), "2+2=", "4", {}, (5, 6))
    completions = []
    for i in range(len(outcomes)):
        length = lengths[i] if lengths else 3
        reason = FinishReason.LENGTH if cut[i : i + 1] == "x" else FinishReason.STOP
        completions.append(Completion(name, i, (9,) * length, (-0.5,) * length, text, reason, version, 100 + i))
    return Group(problem, completions, [VERDICTS[letter] for letter in outcomes])
