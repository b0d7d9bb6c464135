"""Checkpoints: complete or not there, opened by other tools, resumed to the same bits."""

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from groups import judged_group
from runs import assert_same_bits, small_disk
from tiny import character_tokenizer, tiny_llama
from transformers import AutoModelForCausalLM, AutoTokenizer

from rloo_verify.checkpoint import STATE_FOLDER, list_checkpoints, load_checkpoint, save_checkpoint
from rloo_verify.config import LearnerConfig, LoraConfig
from rloo_verify.errors import RunError, StorageError
from rloo_verify.learner import Learner

PAIRS = [((5, 6, 7), (8, 9, 10, 11)), ((12, 13), (14,))]


def learner(*, tied: bool = False, lora: bool = False, updates: int = 2, seed: int = 0) -> Learner:
    """A learner with some updates behind it, so that the optimizer has a state."""
    torch.manual_seed(seed)
    one = Learner(tiny_llama(tied=tied, seed=seed), LearnerConfig(lr=0.01), lora=LoraConfig(rank=4) if lora else None)
    for version in range(updates):
        one.step([judged_group("a", "pf", lengths=(2, 5), version=version)])
    return one


def save(folder: Path, step: int, one: Learner, *, keep: int = 2, dtype: torch.dtype = torch.float32) -> Path:
    return save_checkpoint(folder, step, one, character_tokenizer(), dtype, keep)


@pytest.mark.parametrize("kind", ["untied", "tied", "lora", "lora-tied"])
def test_a_checkpoint_opens_with_from_pretrained_and_computes_what_the_learner_computes(
    kind: str, tmp_path: Path
) -> None:
    one = learner(tied="tied" in kind.split("-"), lora="lora" in kind)
    path = save(tmp_path, 2, one)
    model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
    opened = Learner(model, LearnerConfig(lr=1.0))
    for own, theirs in zip(one.score(PAIRS, 1.0), opened.score(PAIRS, 1.0), strict=True):
        assert own == pytest.approx(theirs, abs=1e-5)
    for name, value in one.named_weights():
        assert torch.equal(value, dict(model.named_parameters())[name]), name
    assert AutoTokenizer.from_pretrained(path)("12+3")["input_ids"] == character_tokenizer()("12+3")["input_ids"]
    assert model.config.tie_word_embeddings == ("tied" in kind.split("-"))


def test_bfloat16_weights_are_rounded_but_the_resume_state_is_not(tmp_path: Path) -> None:
    one = learner()
    path = save(tmp_path, 2, one, dtype=torch.bfloat16)
    model = AutoModelForCausalLM.from_pretrained(path, dtype="auto")
    assert model.dtype == torch.bfloat16
    other = learner(updates=0, seed=9)
    load_checkpoint(tmp_path, other)
    assert_same_bits(other.state(), one.state())


@pytest.mark.parametrize("lora", [False, True])
def test_a_learner_resumes_to_the_same_bits_and_goes_on_to_the_same_bits(lora: bool, tmp_path: Path) -> None:
    one = learner(lora=lora)
    save(tmp_path, 7, one)
    other = learner(lora=lora, updates=0)
    assert load_checkpoint(tmp_path, other) == 7
    assert_same_bits(other.state(), one.state())
    for each in (one, other):
        each.step([judged_group("b", "pff", lengths=(4, 2, 3), version=2)])
    assert_same_bits(other.state(), one.state())


def test_saving_does_not_touch_the_learner(tmp_path: Path) -> None:
    one = learner(lora=True)
    before = {name: value.clone() for name, value in one.model.state_dict().items()}
    save(tmp_path, 1, one, dtype=torch.bfloat16)
    assert_same_bits(dict(one.model.state_dict()), before)


def test_without_a_checkpoint_nothing_is_done(tmp_path: Path) -> None:
    one = learner()
    before = {name: value.clone() for name, value in one.model.state_dict().items()}
    assert load_checkpoint(tmp_path / "not there", one) == 0
    assert_same_bits(dict(one.model.state_dict()), before)


def test_the_newest_are_kept(tmp_path: Path) -> None:
    one = learner(updates=1)
    for step in (1, 2, 9, 10, 100):
        save(tmp_path, step, one, keep=3)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-000009", "step-000010", "step-000100"]
    save(tmp_path, 101, one, keep=1)
    assert [path.name for path in tmp_path.iterdir()] == ["step-000101"]


def test_what_a_killed_writer_left_is_removed_and_the_one_before_is_resumed(tmp_path: Path) -> None:
    one = learner()
    save(tmp_path, 2, one)
    leftover = tmp_path / ".step-000004.tmp"
    shutil.copytree(tmp_path / "step-000002", leftover)
    assert load_checkpoint(tmp_path, learner(updates=0)) == 2
    assert not leftover.exists()


@pytest.mark.parametrize(
    "moment",
    [
        "rloo_verify.checkpoint._write_model",
        "rloo_verify.learner.write_state",
        "rloo_verify.checkpoint._flush",
        "pathlib.Path.rename",
    ],
)
def test_a_kill_between_the_files_leaves_the_checkpoint_before(moment: str, tmp_path: Path) -> None:
    one = learner()
    save(tmp_path, 2, one)
    child = os.fork()
    if child == 0:  # only Python code from here to the kill: no library thread is needed
        patch = pytest.MonkeyPatch()

        def die(*arguments: Any, **_: Any) -> None:
            if moment.endswith("write_state"):
                arguments[0].mkdir()
                (arguments[0] / "half.safetensors").write_bytes(b"half a file")
            os._exit(9)

        patch.setattr(moment, die)
        try:
            save(tmp_path, 4, one)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert [path.name for path in list_checkpoints(tmp_path)] == ["step-000002"]
    other = learner(updates=0, seed=9)
    assert load_checkpoint(tmp_path, other) == 2
    assert_same_bits(other.state(), one.state())
    save(tmp_path, 4, one)  # the same name works afterwards
    assert load_checkpoint(tmp_path, other) == 4


@pytest.mark.parametrize("damage", [lambda data: data[:1000], lambda _: b"", lambda _: b"garbage" * 100])
def test_a_checkpoint_that_cannot_be_read_says_what_to_do(damage: Callable[[bytes], bytes], tmp_path: Path) -> None:
    path = save(tmp_path, 2, learner())
    (state,) = (path / STATE_FOLDER).iterdir()
    state.write_bytes(damage(state.read_bytes()))
    with pytest.raises(RunError, match=r"step-000002 cannot be resumed from .*delete it to go back"):
        load_checkpoint(tmp_path, learner(updates=0))


def test_a_checkpoint_of_another_model_says_what_to_do(tmp_path: Path) -> None:
    save(tmp_path, 2, learner(lora=True))
    with pytest.raises(RunError, match="cannot be resumed from"):
        load_checkpoint(tmp_path, learner(updates=0))


@pytest.mark.parametrize("room_kib", [20, 200, 340, 600])
def test_a_full_disk_leaves_the_checkpoint_before_and_no_half_one(room_kib: int, tmp_path: Path) -> None:
    # The tiny model takes 320 KiB as safetensors and 960 KiB as resume state (weights and two moments), so that the
    # disk fills up in the config, in the weights, between both, and in the state.
    one, other = learner(), learner(updates=0, seed=9)
    with small_disk(tmp_path / "disk", "2m") as disk:
        save(disk, 2, one)
        filler = disk / "filler"
        filler.write_bytes(bytes(max(0, shutil.disk_usage(disk).free - room_kib * 1024)))
        with pytest.raises(StorageError, match=r"step-000004: the disk is full; .* intact, make room and run"):
            save(disk, 4, one)
        assert sorted(path.name for path in disk.iterdir()) == ["filler", "step-000002"]
        assert load_checkpoint(disk, other) == 2
    assert_same_bits(other.state(), one.state())


def test_any_failed_write_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def quota(*_: object, **__: object) -> None:
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    monkeypatch.setattr("rloo_verify.learner.write_state", quota)
    with pytest.raises(StorageError, match="the disk is full"):
        save(tmp_path, 2, learner())
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(StorageError, match="Not a directory"):
        save(blocked, 2, learner())


def test_other_errors_of_torch_stay_what_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr("rloo_verify.learner.write_state", broken)
    with pytest.raises(RuntimeError, match="out of memory"):
        save(tmp_path, 2, learner())
    assert list(tmp_path.iterdir()) == []
