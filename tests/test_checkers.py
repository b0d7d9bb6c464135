"""Loading checkers, and the two simple ones."""

from pathlib import Path

import pytest

from rloo_verify import checkers
from rloo_verify.checkers import choice, exact
from rloo_verify.errors import TaskError
from rloo_verify.types import Outcome


@pytest.mark.parametrize("name", [name for name in checkers.BUILT_IN if name != "code"])
def test_built_in_checkers_load_by_name(name: str, tmp_path: Path) -> None:
    assert checkers.load(name, tmp_path)("<answer>B</answer>", "B", {}, extract=["answer_tag"]).outcome is Outcome.PASS  # type: ignore[union-attr]


def test_a_function_of_the_tasks_own_folder_loads_by_path_and_two_folders_do_not_mix(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "check.py").write_text(
            f"def check(completion, answer, row): return completion == {name!r}\n"
        )
    one = checkers.load("check.py:check", tmp_path / "one")
    two = checkers.load("check.py:check", tmp_path / "two")
    assert (one("one", None, {}), two("one", None, {})) == (True, False)
    assert checkers.load("check.py:check", tmp_path / "one") is one


@pytest.mark.parametrize(
    ("name", "source", "said"),
    [
        ("maths", None, "no checker is called 'maths'; use one of math, exact, choice, code, or FILE.py:FUNCTION"),
        ("check.py:", None, "no checker is called 'check.py:'"),
        ("check.py:check", None, "check.py: this file, named by the task's checker, does not exist"),
        ("check.py:check", "def chek(): ...", "it defines no function 'check'; it defines chek"),
        ("check.py:check", "check = 5", "it defines no function 'check'; it defines none"),
        ("check.py:check", "1/0", "check.py: importing it failed with ZeroDivisionError: division by zero"),
        ("check.py:check", "def check(:", "check.py: importing it failed with SyntaxError"),
    ],
)
def test_a_checker_that_cannot_be_loaded_is_one_sentence_that_names_it(
    name: str, source: str | None, said: str, tmp_path: Path
) -> None:
    if source is not None:
        (tmp_path / "check.py").write_text(source)
    with pytest.raises(TaskError) as caught:
        checkers.load(name, tmp_path)
    assert said in str(caught.value)


def test_exact_compares_all_of_the_text_without_surrounding_space() -> None:
    assert exact.check(" olleh \n", "olleh", {}).outcome is Outcome.PASS
    assert exact.check("It is olleh", "olleh", {}).reason == "wrong_answer"
    assert exact.check("Olleh", "olleh", {}).outcome is Outcome.FAIL
    assert exact.check("Olleh", "olleh", {}, case=False).outcome is Outcome.PASS
    assert exact.check("<think>olleh", "olleh", {}).reason == "no_answer"
    assert exact.check("<answer>7</answer>", 7, {}, extract=["answer_tag"]).outcome is Outcome.PASS


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("C", "C"), ("(C)", "C"), ("[c]", "C"), ("c", "C"), (r"\text{C}", "C"), (r"\textbf{(C)}\ 12", "C"),
        ("C. 42", "C"), ("C: the third", "C"),
        ("(C) text", "C"), ("C) text", "C"), ("option C", "C"), ("**C**", "C"), ("A triangle", None),
        ("A or B", None), ("A, B", None), ("(A) and (B)", None),
        ("AB", None), ("K", None), ("", None), ("C + 1", None), ("Β", None),
    ],
)  # fmt: skip
def test_a_letter_is_read_only_where_one_is_chosen(text: str, letter: str | None) -> None:
    assert choice.letter(text) == letter


def test_choice_judges_letters_in_boxes_and_sentences() -> None:
    assert choice.check(r"\boxed{\text{(C)}}", "C", {}).outcome is Outcome.PASS
    assert choice.check("The answer is C.", "(C)", {}).outcome is Outcome.PASS
    assert choice.check("The answer is (C) because A fails.", "C", {}).outcome is Outcome.PASS
    assert choice.check("The answer is B.", "C", {}).reason == "wrong_answer"
    assert choice.check("The answer is B or C.", "C", {}).reason == "no_answer"
    assert choice.check("No idea", "C", {}).reason == "no_answer"
    assert choice.check("The answer is C.", "cat", {}).reason == "unusable_reference"
