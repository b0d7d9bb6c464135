"""Files of saved generations are recognised by their shape, read exactly, and otherwise refused with one sentence."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from rloo_verify.errors import FormatError, TaskError
from rloo_verify.formats import SavedFile, read_answers
from rloo_verify.formats.saved import outcome_of
from rloo_verify.types import Outcome

OWN = {
    "prompt": "2+2=", "problem": "sums/test/0", "task": "sums", "family": None, "sample_index": 3, "outcome": "error",
    "reason": "checker_crashed", "detail": "", "answer": None, "reference": "4", "tokens": 7, "finish_reason": "stop",
    "logprob_sum": -1.5, "policy_version": 0, "seed": 1, "text": "it is 4",
}  # fmt: skip
LM_EVAL = {
    "doc_id": 5, "doc": {"question": "2+2?", "answer": "so #### 4"}, "target": "so #### 4",
    "arguments": {"gen_args_0": {"arg_0": "Q: 2+2?\nA:", "arg_1": {"until": ["Q:"]}}},
    "resps": [["The answer is 4"]], "filtered_resps": ["4"], "filter": "strict-match", "metrics": ["exact_match"],
    "doc_hash": "d", "prompt_hash": "p", "target_hash": "t", "exact_match": 1.0,
}  # fmt: skip
VERL = {"input": "user\n2+2?\nassistant\n", "output": "#### 4", "gts": "4", "score": 1.0, "step": 10}


def written(folder: Path, *rows: Any, name: str = "saved.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def read(folder: Path, *rows: Any, **options: Any) -> SavedFile:
    return read_answers(written(folder, *rows), **options)


def test_our_own_samples_keep_their_index_and_their_three_outcomes(tmp_path: Path) -> None:
    file = read(tmp_path, OWN, {**OWN, "sample_index": 0, "outcome": "pass"})
    assert file.format == "rloo-verify samples"
    first, second = file.answers
    assert (first.problem, first.sample_index, first.text, first.tokens) == ("sums/test/0", 3, "it is 4", 7)
    assert (first.reference, first.extracted, first.label) == ("4", True, Outcome.ERROR)
    assert (second.line, second.sample_index, second.label) == (2, 0, Outcome.PASS)


def test_an_evaluation_folder_stands_for_its_samples(tmp_path: Path) -> None:
    written(tmp_path, OWN, name="samples.jsonl")
    assert len(read_answers(tmp_path).answers) == 1
    with pytest.raises(FormatError, match=r"a folder without samples\.jsonl"):
        read_answers(Path(__file__).parent)


def test_human_eval_completions_and_evalplus_solutions_are_read(tmp_path: Path) -> None:
    file = read(
        tmp_path,
        {"task_id": "HumanEval/0", "completion": "    return 1"},
        {"task_id": "HumanEval/0", "solution": "def f():\n    return 1", "_identifier": "HumanEval/0 (line 2)"},
        {"task_id": 11, "completion": "", "result": "failed: ", "passed": False},
    )
    assert file.format == "human-eval samples"
    assert [(one.problem, one.text) for one in file.answers] == [
        ("HumanEval/0", "    return 1"),
        ("HumanEval/0", "def f():\n    return 1"),
        ("11", ""),
    ]
    assert [one.label for one in file.answers] == [None, None, Outcome.FAIL]


def test_lm_eval_gives_row_prompt_response_and_metric(tmp_path: Path) -> None:
    (answer,) = read(tmp_path, LM_EVAL).answers
    assert (answer.problem, answer.text, answer.prompt) == ("5", "The answer is 4", "Q: 2+2?\nA:")
    assert answer.row == LM_EVAL["doc"]
    assert (answer.reference, answer.extracted, answer.label) == ("so #### 4", False, Outcome.PASS)


def test_lm_eval_repeats_every_answer_for_each_filter_and_it_is_read_once(tmp_path: Path) -> None:
    rows = [LM_EVAL, {**LM_EVAL, "filter": "flexible-extract", "exact_match": 0.0}]
    file = read(tmp_path, *rows)
    assert (file.variant, file.variants) == ("strict-match", ("strict-match", "flexible-extract"))
    assert [one.label for one in file.answers] == [Outcome.PASS]
    assert [one.label for one in read(tmp_path, *rows, variant="flexible-extract").answers] == [Outcome.FAIL]
    with pytest.raises(FormatError, match="no filter 'none'; its filters are: strict-match, flexible-extract"):
        read(tmp_path, *rows, variant="none")


def test_a_metric_over_several_answers_is_nobodys_verdict(tmp_path: Path) -> None:
    file = read(tmp_path, {**LM_EVAL, "resps": [["4", "5", "6"]]})
    assert [(one.text, one.position, one.label) for one in file.answers] == [
        ("4", 0, None),
        ("5", 1, None),
        ("6", 2, None),
    ]


def test_an_older_lm_eval_file_lists_arguments_and_no_metrics(tmp_path: Path) -> None:
    older = {key: value for key, value in LM_EVAL.items() if key not in ("metrics", "filter", "exact_match")}
    (answer,) = read(tmp_path, {**older, "arguments": [["Q: 2+2?", {"until": []}]], "acc": 0}).answers
    assert (answer.prompt, answer.label) == ("Q: 2+2?", Outcome.FAIL)


def test_log_likelihoods_cannot_be_graded(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"saved.jsonl, line 1 \(lm-eval samples\): `resps` holds log-likelihoods"):
        read(tmp_path, {**LM_EVAL, "resps": [[["-2.0", "False"]], [["-0.1", "True"]]]})


def test_verl_dumps_have_a_reference_and_acc_outranks_the_score(tmp_path: Path) -> None:
    rows = [VERL, {**VERL, "score": 0.7, "acc": False}, {**VERL, "score": -1.0}]
    file = read(tmp_path, *rows)
    assert file.format == "verl rollouts"
    assert [one.label for one in file.answers] == [Outcome.PASS, Outcome.FAIL, Outcome.FAIL]
    first = file.answers[0]
    assert (first.problem, first.prompt, first.reference, first.extracted) == (None, VERL["input"], "4", True)
    del rows[0]["gts"]  # as dumped in 2025
    assert read(tmp_path, *rows).answers[0].reference is None


def test_a_column_map_reads_any_file(tmp_path: Path) -> None:
    row = {"id": 7, "q": "2+2?", "gold": "4", "out": {"text": "4"}, "ok": True, "who": "b", "len": 3}
    columns = {
        "text": "out.text",
        "problem": "id",
        "question": "q",
        "answer": "gold",
        "label": "ok",
        "model": "who",
        "tokens": "len",
    }
    (answer,) = read(tmp_path, row, columns=columns).answers
    assert (answer.text, answer.problem, answer.prompt, answer.reference) == ("4", "7", "2+2?", "4")
    assert (answer.label, answer.model, answer.tokens, answer.extracted) == (Outcome.PASS, "b", 3, False)


def test_a_list_of_texts_is_several_answers_with_their_labels(tmp_path: Path) -> None:
    row = {"id": 7, "responses": ["4", "5"], "correct": [1, 0]}
    columns = {"text": "responses", "problem": "id", "label": "correct"}
    answers = read(tmp_path, row, columns=columns).answers
    assert [(one.text, one.label) for one in answers] == [("4", Outcome.PASS), ("5", Outcome.FAIL)]
    with pytest.raises(FormatError, match=r"line 1 .*: there are 1 labels for more answers"):
        read(tmp_path, {**row, "correct": [1]}, columns=columns)


def test_a_star_reads_one_answer_from_every_model_column(tmp_path: Path) -> None:
    row = {
        "question": "2+2?",
        "small": {"solution": "5", "is_correct": False},
        "large": {"solution": "4", "is_correct": True},
    }
    columns = {"text": "*.solution", "label": "*.is_correct", "question": "question"}
    answers = read(tmp_path, row, columns=columns).answers
    assert [(one.model, one.text, one.label) for one in answers] == [
        ("small", "5", Outcome.FAIL),
        ("large", "4", Outcome.PASS),
    ]
    with pytest.raises(FormatError, match="no column holds `reply`; the columns are: question, small, large"):
        read(tmp_path, row, columns={"text": "*.reply"})


def test_label_and_model_columns_can_be_named_for_every_format(tmp_path: Path) -> None:
    (answer,) = read(
        tmp_path, {**LM_EVAL, "math_verify": 0, "meta": {"model": "m"}}, label="math_verify", by="meta.model"
    ).answers
    assert (answer.label, answer.model) == (Outcome.FAIL, "m")
    with pytest.raises(FormatError, match=r"line 1 .*: no column `modle`"):
        read(tmp_path, LM_EVAL, by="modle")


def test_other_files_are_refused_with_their_keys(tmp_path: Path) -> None:
    with pytest.raises(
        FormatError, match=r"saved\.jsonl, line 1 is in no known format .*; its keys are q, reply: name"
    ) as caught:
        read(tmp_path, {"q": 1, "reply": "x"})
    assert "\n" not in str(caught.value)
    with pytest.raises(FormatError, match="is empty"):
        read(tmp_path)
    with pytest.raises(FormatError, match=r"line 2 \(verl rollouts\): this line has other keys than the first: q"):
        read(tmp_path, VERL, {"q": 1})
    with pytest.raises(FormatError, match=r"line 2 \(verl rollouts\): `output` is null, not text"):
        read(tmp_path, VERL, {**VERL, "output": None})
    with pytest.raises(FormatError, match=r"--columns has no `txet` \(did you mean `text`\?\)"):
        read(tmp_path, VERL, columns={"txet": "output"})
    with pytest.raises(FormatError, match="--columns must say where the answers are"):
        read(tmp_path, VERL, columns={"problem": "input"})
    with pytest.raises(FormatError, match=r"line 1 \(columns\): no column `out`.*did you mean `output`"):
        read(tmp_path, VERL, columns={"text": "out"})
    with pytest.raises(FormatError, match="'maybe' is no verdict"):
        read(tmp_path, {**VERL, "acc": "maybe"})
    with pytest.raises(TaskError, match="line 2 is not JSON"):
        read_answers(torn(tmp_path))


def torn(folder: Path) -> Path:
    path = written(folder, VERL)
    path.write_text(path.read_text() + '{"input": "a')
    return path


def test_gzipped_files_and_json_lists_are_read(tmp_path: Path) -> None:
    packed = tmp_path / "saved.jsonl.gz"
    with gzip.open(packed, "wt", encoding="utf-8") as file:
        file.write(json.dumps(VERL) + "\n")
    assert len(read_answers(packed).answers) == 1
    listed = tmp_path / "saved.json"
    listed.write_text(json.dumps([VERL, VERL]))
    assert len(read_answers(listed).answers) == 2


@pytest.mark.parametrize(
    ("value", "outcome"),
    [(True, "pass"), (0, "fail"), (1.0, "pass"), (0.5, "fail"), (-1, "fail"), ("Passed", "pass"), ("timeout", "fail")],
)
def test_earlier_verdicts_are_bools_scores_or_words(value: Any, outcome: str) -> None:
    assert outcome_of(value) == Outcome(outcome)


def test_null_is_no_verdict() -> None:
    assert outcome_of(None) is None
