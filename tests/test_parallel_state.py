"""Checkpoints across numbers of processes, weights into the engine of rank 0, and what one process's failure does."""

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from exact import exact_model
from processes import join, run, start
from runs import assert_same_bits
from test_learner import GROUPS, make_group
from test_parallel import build
from tiny import character_tokenizer, tiny_llama
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
from transformers import AutoModelForCausalLM

from rloo_verify.checkpoint import STATE_FOLDER, list_checkpoints, load_checkpoint, save_checkpoint
from rloo_verify.collective import follow
from rloo_verify.errors import SyncError
from rloo_verify.learner import Learner
from rloo_verify.parallel import World
from rloo_verify.policy.transformers import TransformersPolicy
from rloo_verify.state import read_state
from rloo_verify.sync import sync_weights

TOKENIZER = character_tokenizer()


def resume_and_save(world: World, source: Path, target: Path, updates: int) -> None:
    """Resumes from `source` if there is something, does some updates, saves to `target`."""
    if not world.leads:
        return follow(world, lambda: world.together(lambda: build(world)))
    learner = world.together(lambda: build(world))
    done = load_checkpoint(source, learner)
    for version in range(done, done + updates):
        learner.step([make_group(f"{version}", "pfpf", version=version)])
    save_checkpoint(target, done + updates, learner, TOKENIZER, torch.float64, keep=9)
    return None


def stored(folder: Path) -> dict[str, torch.Tensor]:
    """All tensors of the newest checkpoint's resume state, whole."""
    state_folder = list_checkpoints(folder)[-1] / STATE_FOLDER
    shapes = HuggingFaceStorageReader(str(state_folder)).read_metadata().state_dict_metadata
    state: dict[str, torch.Tensor] = {n: torch.empty(m.size, dtype=m.properties.dtype) for n, m in shapes.items()}
    read_state(state_folder, state, World())
    return state


@pytest.mark.slow
def test_a_checkpoint_of_any_number_of_processes_resumes_on_any_other_to_the_same_bits(tmp_path: Path) -> None:
    run(2, resume_and_save, tmp_path / "none", tmp_path / "0", 2, out=tmp_path / "out0")
    original = stored(tmp_path / "0")
    assert original["version"] == 2
    assert sum(name.endswith(".exp_avg_sq") for name in original) == len(dict(tiny_llama().named_parameters()))
    for i, size in enumerate((1, 2, 3, 2, 1), 1):  # 2 -> 1 -> 2 -> 3 -> 2 -> 1
        source, target = tmp_path / str(i - 1), tmp_path / str(i)
        run(size, resume_and_save, source, target, 0, out=tmp_path / f"out{i}")
        assert len(list((target / "step-000002" / STATE_FOLDER).iterdir())) == size
        assert_same_bits(stored(target), original)
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "3" / "step-000002", dtype=torch.float64)
    for name, value in model.named_parameters():
        assert torch.equal(value, original[f"parameter.{name}"])


def test_a_resumed_run_goes_on_as_on_one_process(tmp_path: Path) -> None:
    resume_and_save(World(), tmp_path / "none", tmp_path / "start", 2)
    resume_and_save(World(), tmp_path / "start", tmp_path / "one", 2)
    run(3, resume_and_save, tmp_path / "start", tmp_path / "three", 2, out=tmp_path / "out")
    expected, found = stored(tmp_path / "one"), stored(tmp_path / "three")
    assert expected.keys() == found.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=0, atol=1e-8, msg=name)


def fail(world: World, where: str) -> None:
    """Rank 1 fails: while the learner is built, in its backward, or in the writing of its shards."""

    def broken(*_: object, **__: object) -> None:
        raise MemoryError("no more")

    def make() -> Learner:
        if where == "build" and world.rank == 1:
            broken()
        learner = build(world)
        if where == "step" and world.rank == 1:
            learner._backward = broken  # type: ignore[method-assign, assignment]
        return learner

    with pytest.MonkeyPatch.context() as patch:
        if where == "save" and world.rank == 1:
            patch.setattr("torch.distributed.checkpoint.hf_storage.HuggingFaceStorageWriter.write_data", broken)
        if not world.leads:
            return follow(world, lambda: world.together(make))
        learner = world.together(make)
        learner.step(GROUPS)
        return learner.save_state(Path("state"))


@pytest.mark.parametrize(
    ("where", "leader", "other"),
    [
        ("build", "ParallelError: process 1 failed: MemoryError: no more", "MemoryError: no more"),
        ("step", "ParallelError: another process of this run ended", "process 1 failed: MemoryError: no more"),
        ("save", "MemoryError: no more", "MemoryError: no more"),
    ],
)
def test_a_failure_of_one_process_ends_all_of_them_promptly(
    where: str, leader: str, other: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "out"
    assert 0 not in join(start(2, fail, where, out=out), seconds=60)  # COLLECTIVE_LIMIT is ten minutes
    assert leader in (out / "0.error").read_text()
    assert other in (out / "1.error").read_text()


def die(world: World, rank: int) -> None:
    """One process is gone without a word."""

    def gone(*_: object) -> None:
        os._exit(9)

    def make() -> Learner:
        learner = build(world)
        if world.rank == rank:
            learner._backward = gone  # type: ignore[method-assign, assignment]
        return learner

    if not world.leads:
        return follow(world, lambda: world.together(make))
    world.together(make).step(GROUPS)
    return None


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_a_killed_process_ends_the_others_promptly_with_one_sentence(rank: int, tmp_path: Path) -> None:
    out = tmp_path / "out"
    codes = join(start(3, die, rank, out=out), seconds=60)
    assert codes[rank] == 9
    for other in {0, 1, 2} - {rank}:
        assert "ParallelError: another process of this run ended" in (out / f"{other}.error").read_text()


def refuse(world: World) -> None:
    def make() -> Learner:
        return build(world, max_logprob_gap=1e-3)

    if not world.leads:
        return follow(world, lambda: world.together(make))
    world.together(make).step(GROUPS)
    return None


def test_a_refused_step_is_the_same_sentence_on_every_rank(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert 0 not in join(start(2, refuse, out=out))
    sentences = [(out / f"{rank}.error").read_text().strip().splitlines()[-1] for rank in (0, 1)]
    assert "OffPolicyError: sampler and learner log-probs differ by" in sentences[0]
    assert sentences[0] == sentences[1]


def sync_twice(world: World) -> list[float] | None:
    """An engine that stops reading half-way, then an ordinary one; the other ranks must be there for both."""

    class Stopping(TransformersPolicy):
        def load_weights(self, weights: Any, version: int) -> None:  # noqa: ARG002
            next(iter(weights))
            raise SyncError("the engine takes no more")

    if not world.leads:
        follow(world, lambda: world.together(lambda: build(world)))
        return None
    learner = world.together(lambda: build(world))
    limits: Any = {"max_gap": 1e-4, "vocabulary_size": len(TOKENIZER)}
    with pytest.raises(SyncError):
        sync_weights(learner, Stopping(exact_model("llama", 5), TOKENIZER, (2,), max_length=64), **limits)
    policy = TransformersPolicy(exact_model("llama", 5), TOKENIZER, (2,), max_length=64)
    gaps = [sync_weights(learner, policy, **limits).probe_gap]
    learner.step([make_group("a", "pf")])
    return [*gaps, sync_weights(learner, policy, **limits).probe_gap]


def test_the_engine_of_rank_0_gets_whole_weights_and_proves_it(tmp_path: Path) -> None:
    (gaps, other) = run(2, sync_twice, out=tmp_path / "out")
    assert len(gaps) == 2
    assert max(gaps) < 1e-6
    assert other is None
