"""Where the final answer of a completion is found, and where there is none."""

import time

import pytest

from rloo_verify.checkers.extract import DEFAULT_RULES, RULES, extract_answer
from rloo_verify.errors import TaskError


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"so \boxed{7}.", "7"),
        (r"first \boxed{6}. That is wrong; it is \boxed{8}.", "8"),
        (r"\boxed{\frac{1}{\sqrt{2}}}", r"\frac{1}{\sqrt{2}}"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\fbox{42}", "42"),
        (r"$\boxed 7$", "7"),
        (r"$\boxed -3.5$", "-3.5"),
        (r"I put it in \boxed as requested. So \boxed{7}", "7"),
        (r"So \boxed{7}, in a \boxed as requested.", "7"),
        (r"\boxed{\boxed{42}}", "42"),
        (r"<|begin_of_box|>42<|end_of_box|>", "42"),
        (r"\boxed{1} then <|begin_of_box|>42<|end_of_box|>", "42"),
    ],
)
def test_the_last_balanced_box_counts(text: str, answer: str) -> None:
    assert extract_answer(text, ["boxed"]) == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"\boxed{1} and \boxed{2}", "1, 2"),
        (r"\[\boxed{(1, 2)}, \boxed{(2, 1)}\]", "(1, 2), (2, 1)"),
        (r"\boxed{k = 45} \quad \text{and} \quad \boxed{n = 2}", "k = 45, n = 2"),
        (r"\boxed{1} papers and \boxed{2} bins", "1, 2"),
        (r"\boxed{1} no no no no no \boxed{2}", "2"),
        (r"\boxed{10} and then \boxed{42}", "42"),
        (r"\boxed{28} in the afternoon, \boxed{42} in all", "42"),
        (r"Part (a): \boxed{1}" + "\n" + r"Part (b): \boxed{2}", "2"),
    ],
)
def test_boxes_are_one_answer_only_where_the_text_joins_them(text: str, answer: str) -> None:
    assert extract_answer(text, ["boxed"]) == answer


@pytest.mark.parametrize(
    "text", [r"\boxed{", r"so \boxed{\frac{1}{2}", r"\boxed{}", r"\boxed{ }", r"\boxed{1} so \boxed{2"]
)
def test_an_empty_or_unclosed_last_box_is_no_answer_even_where_another_rule_would_find_one(text: str) -> None:
    assert extract_answer(text + " The answer is 5.", ["boxed", "phrase", "last_number"]) is None


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"<think>\boxed{1}</think>\boxed{2}", "2"),
        (r"\boxed{1}</think> it is \boxed{2}", "2"),
        (r"<think>a</think> b <think>\boxed{1}</think> \boxed{3}", "3"),
        (r"<think>\boxed{1}</think> nothing", None),
        (r"<think>so it is \boxed{1}", None),
        (r"\boxed{1} <think>or not", None),
    ],
)
def test_reasoning_does_not_count_and_unfinished_reasoning_is_no_answer(text: str, answer: str | None) -> None:
    assert extract_answer(text) == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<answer>42</answer>", "42"),
        ("<answer>1</answer> no: <answer> 2 </answer>", "2"),
        ("<answer>The answer is $42$</answer>", "42"),
        (r"<answer>\boxed{42}</answer>", "42"),
        ("<answer>42", None),
        ("x = 3\n#### 42", "42"),
        ("####: 55", "55"),
        ("#### 42\nQuestion: and the next one?", "42"),
        ("#### Step 1\nadd", None),
        ("The answer is 42.", "42"),
        ("The answer is 3.5.", "3.5"),
        ("**Final Answer:** 42", "42"),
        ("Final Answer: **42**", "42"),
        ("### Final answer\n42", "42"),
        ("The final answer is $\\frac{1}{2}$. I hope it is correct.", r"\frac{1}{2}"),
        ("The answer is 42 because geometry proves it", "42"),
        ("The answer is 85, in total, so the bakery sells that much.", "85"),
        ("Answer: 44 was my first guess.\nAfter checking,\nAnswer: 19", "19"),
        ("The answer is 1 or 2", "1 or 2"),
        ("答案是42。", "42"),
        ("最终答案：$\\frac{1}{2}$", r"\frac{1}{2}"),
        ("Ответ: 42", "42"),
        ("La réponse finale est $42$.", "42"),
        ("There is nothing here 42", None),
    ],
)
def test_the_default_rules_find_tags_hashes_and_phrases(text: str, answer: str | None) -> None:
    assert extract_answer(text) == answer


@pytest.mark.parametrize(
    ("rule", "text", "answer"),
    [
        ("last_math", "It is $x$, no, $y$.", "y"),
        ("last_math", r"It is $x$, no, \(y\) or \[z\]", "z"),
        ("last_math", "nothing", None),
        ("last_number", "She has 1,234 apples", "1,234"),
        ("last_number", "it is -3.", "-3"),
        ("last_number", "5-3", "3"),
        ("last_number", "about 3/4 of it", "3/4"),
        ("last_number", "it costs $37.00.", "$37.00"),
        ("bare", " x = 2 ", "x = 2"),
        ("bare", "two\nlines", None),
        ("whole", " all\nof it ", "all\nof it"),
    ],
)
def test_the_last_resorts_are_taken_only_where_the_task_names_them(rule: str, text: str, answer: str | None) -> None:
    assert extract_answer(text, [rule]) == answer


def test_the_first_rule_in_the_listed_order_that_applies_wins() -> None:
    text = r"The answer is 1. \boxed{2} #### 3"
    assert extract_answer(text, ["boxed", "phrase"]) == "2"
    assert extract_answer(text, ["phrase", "boxed"]) == "1"
    assert extract_answer(text, ["hashes", "boxed"]) == "3"


def test_an_unknown_rule_is_refused_by_name() -> None:
    with pytest.raises(TaskError, match="'box' is no rule of extraction; the rules are boxed, answer_tag"):
        extract_answer("5", ["box"])


@pytest.mark.parametrize(
    "unit",
    [
        "\\boxed{",
        "\\boxed",
        "{",
        "}",
        "$",
        "\\(",
        "\\[",
        "<answer>",
        "####",
        "answer is ",
        "1,",
        "1/",
        "\\frac",
        " ",
        "\n",
        "<think>",
    ],
)
@pytest.mark.parametrize("rule", RULES)
def test_extraction_is_linear_in_the_length_of_hostile_text(rule: str, unit: str) -> None:
    text = unit * (100_000 // len(unit))
    started = time.process_time()
    extract_answer(text, [rule])
    extract_answer(r"\boxed{" * 9_000 + "1" + "}" * 9_000, [rule])
    assert time.process_time() - started < 1.0


def test_the_default_rules_are_the_documented_ones() -> None:
    assert DEFAULT_RULES == ("boxed", "answer_tag", "hashes", "phrase")
