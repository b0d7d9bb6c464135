"""Two evaluations of the same problems: differences, their intervals and sign test, and which problems flipped."""

import itertools
import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from commands import Command, assert_user_error

from rloo_verify.compare import compare_samples
from rloo_verify.errors import FormatError
from rloo_verify.evaluation_folder import EvaluationFolder
from rloo_verify.intervals import Floats
from rloo_verify.paired import difference_intervals, sign_test
from rloo_verify.samples import Sample
from rloo_verify.types import Outcome


def samples(*problems: str, **fields: str | None) -> list[Sample]:
    """Problems as `name:verdicts`, for instance `x:pfe` for a pass, a fail and an error."""
    words = {"p": Outcome.PASS, "f": Outcome.FAIL, "e": Outcome.ERROR}
    return [
        Sample(problem=name, task="t", sample_index=i, outcome=words[letter], answer=letter, **fields)  # type: ignore[arg-type]
        for name, _, verdicts in (problem.partition(":") for problem in problems)
        for i, letter in enumerate(verdicts)
    ]


def test_differences_are_paired_over_the_common_problems() -> None:
    a = samples("x:pfff", "y:ffff", "only:pppp")
    b = samples("x:pppf", "y:ffff", "other:ffff", "third:ffff")
    comparison = compare_samples(a, b, [1, 2])
    assert (comparison.problems, comparison.only_a, comparison.only_b) == (2, 1, 2)
    rate = comparison.rates["pass@1"]
    assert (rate.a, rate.b, rate.difference) == (0.125, 0.375, 0.25)  # (1/4 + 0)/2, (3/4 + 0)/2
    # pass@2 = 1 - C(n-c, 2)/C(4, 2): 1 - 3/6 = 0.5 and 1 - 0/6 = 1, halved by the problem that nobody passes
    assert (comparison.rates["pass@2"].a, comparison.rates["pass@2"].b) == (pytest.approx(0.25), pytest.approx(0.5))
    assert (comparison.gained, comparison.lost, comparison.unchanged) == (["x"], [], 1)
    assert "1 only in the first, 2 only in the second" in comparison.warnings[0]


def test_flips_are_listed_with_their_direction_the_largest_first() -> None:
    comparison = compare_samples(samples("u:pf", "v:ff", "w:pp", "x:pf"), samples("u:pp", "v:pp", "w:pf", "x:fp"))
    assert [(flip.problem, flip.a, flip.b) for flip in comparison.flips] == [("v", 0, 1), ("u", 0.5, 1), ("w", 1, 0.5)]
    assert (comparison.gained, comparison.lost, comparison.unchanged) == (["v", "u"], ["w"], 1)


def test_the_sign_test_is_exact() -> None:
    def p(gains: int, losses: int, ties: int = 5) -> float:
        return sign_test(np.array([0.5] * gains + [-0.25] * losses + [0.0] * ties), [None] * (gains + losses + ties))

    assert p(6, 0) == pytest.approx(2 / 2**6)  # all six of six on one side, either side
    assert p(1, 6) == pytest.approx(2 * (1 + 7) / 2**7)  # at most one of seven on the rarer side
    assert p(3, 3) == p(0, 0) == 1.0
    for gains, losses in itertools.product(range(7), repeat=2):
        n = gains + losses
        likely = [math.comb(n, k) for k in range(n + 1)]
        as_extreme = sum(ways for ways in likely if ways <= likely[gains])
        assert p(gains, losses) == pytest.approx(as_extreme / 2**n)


def test_a_family_counts_once_in_the_sign_test() -> None:
    differences = np.array([1.0, 1.0, 1.0, 1.0, -1.0, 1.0])
    assert sign_test(differences, [None] * 6) == pytest.approx(2 * (1 + 6) / 2**6)
    # five of one family, whose sum is +3, and one alone: two gains of two
    assert sign_test(differences, ["f", "f", "f", "f", "f", None]) == pytest.approx(2 / 2**2)


def test_unequally_many_answers_do_not_decide_the_sign() -> None:
    """One greedy answer against 16: the right answer to the first would beat any mean below 1."""
    comparison = compare_samples(samples("x:p", "y:p"), samples("x:ppppfppppppppppp", "y:fppp"))
    assert (comparison.gained, comparison.lost, comparison.unchanged) == ([], ["y"], 1)  # by the first answer of each
    assert comparison.rates["pass@1"].b == pytest.approx((15 / 16 + 3 / 4) / 2)  # rates use all answers
    assert "unequally many judged answers" in comparison.warnings[-1]


def test_errors_are_left_out_and_problems_without_a_verdict_counted() -> None:
    comparison = compare_samples(samples("x:epf", "y:ee"), samples("x:pff", "y:pf"))
    assert comparison.rates["pass@1"].problems == 1
    assert comparison.rates["pass@1"].difference == pytest.approx(1 / 3 - 1 / 2)
    assert (comparison.unjudged, comparison.unchanged, comparison.flips) == (1, 1, [])  # x: p f against p f


def test_by_default_k_is_one_and_the_most_that_both_allow() -> None:
    assert list(compare_samples(samples("x:pfpf"), samples("x:pf")).rates) == ["pass@1", "pass@2", "maj@2", "pass^2"]
    assert list(compare_samples(samples("x:p"), samples("x:f")).rates) == ["pass@1"]


def test_a_k_that_no_problem_allows_is_refused() -> None:
    with pytest.raises(FormatError, match="k = 3: no problem has so many judged answers in both; the most is 2"):
        compare_samples(samples("x:pfp"), samples("x:pf"), [1, 3])


def test_nothing_in_common_is_refused() -> None:
    with pytest.raises(FormatError, match="left and right have no problem in common: the first begins with x"):
        compare_samples(samples("x:p"), samples("y:p"), names=("left", "right"))


def test_other_references_prompts_and_tasks_are_warned_of() -> None:
    a, b = samples("x:p", "y:p", reference="4", prompt="2+2="), samples("x:p", "y:p", reference="5", prompt="2+3=")
    assert [warning.split(":")[0] for warning in compare_samples(a, b).warnings] == [
        "2 of 2 common problems differ in their reference",
        "2 of 2 common problems differ in their prompt",
    ]
    assert compare_samples(a, samples("x:p", "y:p")).warnings == []  # not known is not different


def equal_policies(problems: int, n: int, family: int, *, runs: int = 1000) -> tuple[Floats, Sequence[str | None]]:
    """Differences `[problems, runs]` of pairs of equal policies, which pass each problem with the same probability.

    With families, it is only on average the same: each policy is better at some families, all of their problems alike.
    """
    random = np.random.default_rng(0)
    p_a = p_b = np.repeat(random.beta(0.6, 0.9, size=(problems // family, runs)), family, axis=0)
    if family > 1:
        p_b = np.repeat(random.beta(0.6, 0.9, size=(problems // family, runs)), family, axis=0)
    families = [f"{i // family}" if family > 1 else None for i in range(problems)]
    return (random.binomial(n, p_b) - random.binomial(n, p_a)) / n, families


@pytest.mark.parametrize(("problems", "n", "family"), [(200, 16, 1), (200, 1, 1), (50, 4, 1), (200, 16, 5)])
def test_two_equal_policies_differ_in_3_to_7_percent_of_1000_simulations(problems: int, n: int, family: int) -> None:
    differences, families = equal_policies(problems, n, family)
    intervals = difference_intervals(differences, families)
    called = sum(interval is not None and not interval[0] <= 0 <= interval[1] for interval in intervals)
    assert 30 <= called <= 70
    by_sign = sum(sign_test(differences[:, run], families) < 0.05 for run in range(1000))
    assert by_sign <= 60  # exact, so at most 5% in the long run; that is 1.5 standard errors above it


def test_the_interval_covers_a_true_difference_in_93_to_97_percent() -> None:
    random = np.random.default_rng(1)
    p = random.beta(2, 3, size=(200, 1000))
    better = p + 0.1 * (1 - p)  # the true difference is the mean of 0.1 (1 - p) over beta(2, 3): 0.1 * 3/5
    differences = (random.binomial(16, better) - random.binomial(16, p)) / 16
    intervals = difference_intervals(differences, [None] * 200)
    covered = sum(interval is not None and interval[0] <= 0.06 <= interval[1] for interval in intervals)
    assert 930 <= covered <= 970


def test_families_widen_the_interval() -> None:
    differences = np.repeat(np.random.default_rng(0).choice([-1.0, 0.0, 1.0], 40), 5)[:, None]
    (alone,) = difference_intervals(differences, [None] * 200)
    (together,) = difference_intervals(differences, [str(i // 5) for i in range(200)])
    assert alone is not None
    assert together is not None
    widths = alone[1] - alone[0], together[1] - together[0]
    assert 2.0 < widths[1] / widths[0] < 2.5  # sqrt(5) = 2.24: 40 independent values, not 200


def test_few_differences_do_not_give_a_narrow_interval() -> None:
    nothing = np.zeros((200, 1))
    (interval,) = difference_intervals(nothing, [None] * 200)
    assert interval is not None
    # no gain in 200: p up to 1 - 0.0125^(1/200) is within 98.75%; the same for losses
    bound = 1 - 0.0125 ** (1 / 200)
    assert interval == (pytest.approx(-bound), pytest.approx(bound))
    nothing[0, 0] = 1.0
    (interval,) = difference_intervals(nothing, [None] * 200)
    assert interval is not None
    assert interval[0] < 0 < 0.005 < interval[1]


def test_a_rate_that_no_problem_has_has_no_interval() -> None:
    assert difference_intervals(np.array([[np.nan], [np.nan]]), [None, None]) == [None]


def evaluation(path: Path, *problems: str, **settings: object) -> Path:
    with EvaluationFolder(path, {"task": "t", "n": 2, **settings}) as folder:
        for sample in samples(*problems):
            folder.append(sample)
    return path


def test_two_folders_are_compared_in_the_terminal(command: Command, tmp_path: Path) -> None:
    a = evaluation(tmp_path / "a", *(f"p{i:02}:ff" for i in range(20)), temperature=1.0, model="x")
    b = evaluation(tmp_path / "b", *(f"p{i:02}:pf" for i in range(20)), temperature=0.0, model="y")
    code, out, _ = command("compare", a, b)
    assert code == 0
    assert "warning: the settings differ: temperature 1.0 and 0.0\n" in out  # the model is what is compared
    row = next(line for line in out.splitlines() if line.startswith("pass@1 "))
    assert row.split()[:4] == ["pass@1", "0.000", "0.500", "+0.500"]
    assert "p = 1.9e-06" in row  # 2 / 2^20
    assert "pass@1: b is better" in out
    assert "20 problems gained, 0 lost, 0 unchanged\n- p00: gained, 0 -> 0.5\n" in out
    assert "a is better" in command("compare", b, a)[1]
    assert "pass@1: no difference can be told" in command("compare", a, a)[1]


def test_out_has_the_comparison_and_its_report(command: Command, tmp_path: Path) -> None:
    a, b = evaluation(tmp_path / "a", "p:pf", "q:ff"), evaluation(tmp_path / "b", "p:ff", "q:ff", "r:pp")
    code, out, _ = command("compare", a, b / "samples.jsonl", "--k", "1", "--out", tmp_path / "c", "--json")
    assert code == 0
    found = json.loads(out)
    assert json.loads((tmp_path / "c" / "compare.json").read_text()) == found
    assert (found["a"], found["b"], found["only_b"], found["lost"]) == ("a", "b", 1, ["p"])
    assert list(found["rates"]) == ["pass@1"]
    assert "<html" in (tmp_path / "c" / "report.html").read_text()
    assert_user_error(command("compare", a, b, "--out", a), "is an evaluation itself")


def test_a_training_runs_evaluations_are_compared_by_their_files(command: Command, tmp_path: Path) -> None:
    (tmp_path / "run" / "eval").mkdir(parents=True)
    for step, verdicts in ((0, "ff"), (20, "pp")):
        lines = [json.dumps({**one.as_json(), "signal": "mixed", "step": step}) for one in samples(f"x:{verdicts}")]
        (tmp_path / "run" / "eval" / f"step-{step:06}.jsonl").write_text("\n".join(lines) + "\n")
    first, last = sorted((tmp_path / "run" / "eval").iterdir())
    code, out, _ = command("compare", first, last, "--json")
    assert (code, json.loads(out)["a"], json.loads(out)["gained"]) == (0, "step-000000.jsonl", ["x"])
    assert_user_error(command("compare", tmp_path / "run", last), "has no samples.jsonl: name one of", str(first))
    assert_user_error(command("compare", tmp_path / "run" / "eval" / "gone.jsonl", last), "cannot be read")
    assert_user_error(command("compare", first, last, "--k", "0"), "--k '0' is not a list")
