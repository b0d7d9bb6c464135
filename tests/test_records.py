"""What rollout files say of a completion."""

import json

from groups import judged_group
from tiny import character_tokenizer

from rloo_verify.records import group_records


def test_a_record_has_the_prompt_that_the_model_saw_and_the_advantage_of_the_raw_rewards() -> None:
    lines = list(group_records([judged_group("a", "pffe")], character_tokenizer(), step=3))
    first, *_, last = (json.loads(line) for line in lines)
    assert len(lines) == 4
    assert first["prompt"] == "12"  # the decoded prompt tokens 5 and 6
    assert (first["step"], first["problem"], first["signal"], first["seed"]) == (3, "a", "mixed", 100)
    assert first["advantage"] == 1.0  # 1 - (0 + 0) / 2: the error is not a sibling
    assert [json.loads(line)["advantage"] for line in lines] == [1.0, -0.5, -0.5, None]
    assert (last["outcome"], last["reason"], last["detail"]) == ("error", "checker_crashed", "exit code 7")
    assert first["logprob_sum"] == -1.5  # three tokens of -0.5


def test_any_text_stays_on_one_line_of_ascii() -> None:
    (line, _) = group_records([judged_group("a", "pf", text="\u2028 \ud800 \n\x85é")], character_tokenizer())
    assert line.isascii()
    assert len(line.splitlines()) == 1
    assert json.loads(line)["text"] == "\u2028 \ud800 \n\x85é"
