"""Templates, and rendering to token ids with and without a chat template."""

from typing import Any

import pytest
from tiny import character_tokenizer

from rloo_verify.errors import TaskError
from rloo_verify.prompts import fill, placeholders, render
from rloo_verify.types import Problem

PROBLEM = Problem(
    id="t/train/3",
    task="t",
    messages=({"role": "system", "content": "add."}, {"role": "user", "content": "1+2"}),
    plain="1+2=",
    answer="3",
)
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}{{ m['role'] }}>{{ m['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant>{% endif %}{% if thinking %}(think){% endif %}"
)


def chat_tokenizer(template: str = TEMPLATE) -> Any:
    tokenizer = character_tokenizer()
    tokenizer.chat_template = template
    return tokenizer


def test_braces_in_data_are_never_read_as_placeholders() -> None:
    assert fill("Q: {question}", {"question": r"\frac{question}{x} {{y}}"}) == r"Q: \frac{question}{x} {{y}}"


def test_empty_braces_and_doubled_braces_are_printed() -> None:
    template = r"{q}: put it in \boxed{}, not in {{q}} or {1}"
    assert placeholders(template) == ["q"]
    assert fill(template, {"q": "7"}) == r"7: put it in \boxed{}, not in {q} or {1}"
    assert fill(r"\boxed{{{answer}}}", {"answer": "7"}) == r"\boxed{7}"


def test_lists_go_in_as_json_and_numbers_as_they_are() -> None:
    assert fill("{nums} {n} {text}", {"nums": [1, "é"], "n": 2**70, "text": "é"}) == f'[1, "é"] {2**70} é'


def test_a_chat_template_is_always_applied_with_its_generation_prompt() -> None:
    tokenizer = chat_tokenizer()
    rendered = render(PROBLEM, tokenizer)
    ids = list(rendered.prompt_token_ids_T)
    assert tokenizer.decode(ids) == "<bos>system>add.\nuser>1+2\nassistant>"
    assert ids.count(tokenizer.bos_token_id) == 1


def test_template_kwargs_reach_the_chat_template() -> None:
    tokenizer = chat_tokenizer()
    rendered = render(PROBLEM, tokenizer, template_kwargs={"thinking": True})
    assert tokenizer.decode(list(rendered.prompt_token_ids_T)).endswith("assistant>(think)")


def test_a_model_without_a_chat_template_sees_the_plain_prompt() -> None:
    tokenizer = character_tokenizer()
    rendered = render(PROBLEM, tokenizer)
    assert list(rendered.prompt_token_ids_T) == [tokenizer.convert_tokens_to_ids(c) for c in "1+2="]
    assert rendered.answer == PROBLEM.answer


def test_an_eos_that_the_tokenizer_appends_is_taken_off() -> None:
    class ClosingTokenizer:
        chat_template = None
        eos_token_id = 2

        def __call__(self, text: str) -> dict[str, list[int]]:
            return {"input_ids": [1, *map(ord, text), 2]}

    assert render(PROBLEM, ClosingTokenizer()).prompt_token_ids_T == (1, *map(ord, "1+2="))


@pytest.mark.parametrize(("limit", "fits"), [(4, True), (3, False), (None, True)])
def test_a_prompt_longer_than_the_limit_is_named_with_both_lengths(limit: int | None, fits: bool) -> None:
    if fits:
        assert len(render(PROBLEM, character_tokenizer(), limit).prompt_token_ids_T) == 4
        return
    with pytest.raises(TaskError, match=r"t/train/3: the prompt is 4 tokens long, but max_prompt_tokens is 3"):
        render(PROBLEM, character_tokenizer(), limit)


def test_a_chat_template_that_refuses_the_messages_is_reported() -> None:
    with pytest.raises(TaskError, match=r"t/train/3: .*no system role, please"):
        render(PROBLEM, chat_tokenizer("{{ raise_exception('no system role, please') }}"))


def test_a_prompt_without_tokens_is_an_error() -> None:
    with pytest.raises(TaskError, match="empty after tokenization"):
        render(Problem("t/train/0", "t", (), "", "1"), character_tokenizer())
