"""What saves memory must change neither a weight nor the order in which things are true."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from groups import judged_group
from runs import assert_same_bits, run_here, write_run
from tiny import character_tokenizer, save_tiny_model, tiny_llama

import rloo_verify.setup
from rloo_verify.config import LearnerConfig
from rloo_verify.errors import ModelError, PolicyError
from rloo_verify.learner import Learner
from rloo_verify.optimizer import check_optimizer, move_state, start_state
from rloo_verify.policy.base import Request, Sampling
from rloo_verify.policy.transformers import TransformersPolicy
from rloo_verify.types import Problem


def learner(**changes: Any) -> Learner:
    return Learner(tiny_llama(), LearnerConfig(**{"lr": 1e-2, "micro_batch_tokens": 64} | changes))


def updates(one: Learner, count: int) -> Learner:
    for version in range(one.version, one.version + count):
        one.step([judged_group("a", "pfp", lengths=(2, 5, 3), version=version)])
    return one


def test_an_optimizer_state_that_waits_on_the_cpu_gives_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    places: list[str] = []
    monkeypatch.setattr("rloo_verify.learner.move_state", lambda _, device: places.append(str(device)))
    offloaded = learner(offload_optimizer=True)
    offloaded.optimizer.register_step_pre_hook(lambda *_: places.append("step"))
    updates(offloaded, 2)
    assert places == ["cpu", "step", "cpu"] * 2  # the first is the learner's own device, here a CPU, too
    assert_same_bits(offloaded.state(), updates(learner(), 2).state())


def test_moving_an_optimizer_state_moves_its_moments_and_not_its_step_counts() -> None:
    one = updates(learner(), 1)
    move_state(one.optimizer, "meta")
    for state in one.optimizer.state.values():
        assert {name: value.device.type for name, value in state.items()} == {
            "step": "cpu", "exp_avg": "meta", "exp_avg_sq": "meta",
        }  # fmt: skip


def test_making_room_for_a_state_changes_no_parameter_and_no_rate() -> None:
    one = learner(weight_decay=0.1)
    before = {name: value.clone() for name, value in one.state().items()}
    start_state(one.optimizer)
    after = one.state()
    assert_same_bits({name: after[name] for name in before}, before)
    assert sum(name.endswith(".exp_avg") for name in after) == len(one.trained)
    assert [settings["lr"] for settings in one.optimizer.param_groups] == [1e-2]
    assert all(p.grad is None for p in one.trained.values())


class Recording(TransformersPolicy):
    """The embedded engine, which tells what it was asked for."""

    calls: Sequence[str] = ()

    def generate(self, requests: Any, sampling: Any) -> Any:
        self.calls = [*self.calls, "generate"]
        return super().generate(requests, sampling)

    def load_weights(self, weights: Any, version: int) -> None:
        self.calls = [*self.calls, f"load {version}"]
        super().load_weights(weights, version)

    def score(self, sequences: Any, temperature: float) -> Any:
        self.calls = [*self.calls, "score"]
        return super().score(sequences, temperature)

    def sleep(self) -> None:
        self.calls = [*self.calls, "sleep"]
        super().sleep()

    def wake(self) -> None:
        self.calls = [*self.calls, "wake"]
        super().wake()


def test_the_engine_sleeps_while_the_learner_learns_and_is_proved_right_when_it_wakes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engines: list[Recording] = []

    def engine(*arguments: Any, **options: Any) -> Recording:
        engines.append(Recording(*arguments, **options))
        return engines[-1]

    step = Learner.step

    def learn(self: Learner, groups: Any) -> Any:
        engines[0].calls = [*engines[0].calls, "learn"]
        return step(self, groups)

    monkeypatch.setattr(rloo_verify.setup, "TransformersPolicy", engine)
    monkeypatch.setattr(Learner, "step", learn)
    never = "def check(completion, answer, row):\n    return False\n"  # no update, so no weights would have to be sent
    path = write_run(tmp_path, check=never)
    run_here(path, "--run.steps=2", "--eval.problems=0", "--policy.sleep=true", "--tasks.1.weight=0.0001")
    step_calls = ["generate", "sleep", "learn", "wake", "load 0", "score"]
    assert engines[0].calls == ["load 0", "score", *step_calls, *step_calls]


def test_a_sleeping_engine_refuses_and_an_awake_one_has_its_weights() -> None:
    tokenizer = character_tokenizer()
    policy = TransformersPolicy(tiny_llama(), tokenizer, (2,), max_length=32)
    requests = [Request(Problem("p", "t", (), "", "", {}, (5, 6)), 0, 7)]
    before = list(policy.generate(requests, Sampling(4)))
    policy.sleep()
    with pytest.raises(PolicyError, match="it is asleep"):
        policy.generate(requests, Sampling(4))
    with pytest.raises(PolicyError, match="it is asleep"):
        policy.score([((5,), (6,))], 1.0)
    policy.wake()
    assert list(policy.generate(requests, Sampling(4))) == before


@pytest.mark.vllm
@pytest.mark.skipif(torch.cuda.is_available(), reason="with a GPU vLLM can sleep")
def test_vllm_that_cannot_sleep_says_so_in_one_sentence(tmp_path: Path) -> None:
    from rloo_verify.policy.vllm import VllmPolicy

    with pytest.raises(PolicyError, match=r"policy\.sleep = true needs a GPU: vLLM cannot sleep on"):
        VllmPolicy(save_tiny_model(tmp_path), dtype="float32", max_model_len=64, sleep=True)


def test_an_8_bit_optimizer_that_is_not_installed_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "torchao.optim", None)
    sentence = r"learner\.optimizer = adamw8bit needs torchao .*pip install 'rloo-verify\[adam8\]'"
    with pytest.raises(ModelError, match=sentence):
        check_optimizer(LearnerConfig(lr=1.0, optimizer="adamw8bit"))
    check_optimizer(LearnerConfig(lr=1.0))


@pytest.mark.slow  # torch.compile builds its step with a C++ compiler: about 40 s
def test_moments_in_8_bit_train_and_resume(tmp_path: Path) -> None:
    pytest.importorskip("torchao")
    small, plain = updates(learner(optimizer="adamw8bit"), 3), updates(learner(), 3)
    start = dict(tiny_llama().named_parameters())
    name = "model.layers.0.mlp.up_proj.weight"
    moved = [(one.trained[name] - start[name]).flatten() for one in (small, plain)]
    assert torch.cosine_similarity(*moved, dim=0) > 0.9
    moments = small.optimizer.state[small.trained[name]]["exp_avg"]
    assert moments.codes.dtype == torch.uint8
    assert moments.codes.numel() == 128 * 64
    small.save_state(tmp_path)
    other = learner(optimizer="adamw8bit")
    other.load_state(tmp_path)
    for key, value in small.state().items():
        if key.startswith("parameter."):
            assert torch.equal(other.state()[key], value)
        else:
            assert (other.state()[key] - value).abs().max() <= 0.01 * value.abs().max()
    assert other.step([judged_group("a", "pfp", lengths=(2, 5, 3), version=3)]).updated
