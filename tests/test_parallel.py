"""Several processes must compute what one computes: float64, gloo on a CPU."""

import math
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from exact import MODELS, exact_model
from processes import run
from runs import assert_same_bits
from test_learner import GROUPS, make_group, plain_gradients

from rloo_verify.collective import follow
from rloo_verify.config import LearnerConfig, LoraConfig
from rloo_verify.errors import ConfigError
from rloo_verify.learner import Learner, Update
from rloo_verify.packing import NOTHING, Scored
from rloo_verify.parallel import World, full, joined
from rloo_verify.types import Group

EXACT = 1e-10


def build(world: World, kind: str = "llama", *, lora: bool = False, seed: int = 0, **changes: Any) -> Learner:
    """A learner of an exact float64 model."""
    limit = changes.pop("max_logprob_gap", math.inf)
    settings = LearnerConfig(**{"lr": 1e-2, "max_grad_norm": 1e9, "micro_batch_tokens": 24} | changes)
    torch.manual_seed(seed)
    return Learner(
        exact_model(kind, seed),
        settings,
        temperature=0.8,
        lora=LoraConfig(rank=4) if lora else None,
        reference=exact_model(kind, seed + 1) if settings.kl_beta and not lora else None,
        max_logprob_gap=limit,
        world=world,
    )


class Kept:
    """What one process saw: the updates, the gradients at each, and its micro-batches with how many of them are empty.

    Keeps them from inside `Learner.step`, so also on the ranks that only follow.
    """

    def __init__(self) -> None:
        self.updates: list[Update] = []
        self.gradients: list[dict[str, torch.Tensor]] = []
        self.batches: list[tuple[int, int]] = []
        self.weights: dict[str, torch.Tensor] = {}

    def watch(self, learner: Learner) -> Learner:
        def gradients(*_: object) -> None:
            trained = learner.trained.items()
            self.gradients.append({name: full(p.grad).clone() for name, p in trained if p.grad is not None})

        def shared(*arguments: Any) -> Any:
            batches = share(*arguments)
            self.batches.append((len(batches), sum(rows is NOTHING for rows in batches)))
            return batches

        share = learner._share
        learner._share = shared  # type: ignore[method-assign]
        learner.optimizer.register_step_pre_hook(gradients)
        return learner


def learn(world: World, steps: list[list[Group]], kind: str = "llama", **changes: Any) -> Kept:
    """Trains with any number of processes; every rank returns what it saw, rank 0 the final weights, too."""
    kept, step = Kept(), Learner.step

    def keep(learner: Learner, groups: list[Group]) -> Update:
        kept.updates.append(step(learner, groups))
        return kept.updates[-1]

    def make() -> Learner:
        return kept.watch(world.together(lambda: build(world, kind, **changes)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Learner, "step", keep)
        if world.leads:
            learner = make()
            for groups in steps:
                learner.step(groups)
            kept.weights = {name: value.clone() for name, value in learner.named_weights()}
        else:
            follow(world, make)
    return kept


def assert_equal(one: Kept, other: Kept) -> None:
    """Losses, norms, gaps and gradients of every update, and the weights at the end."""
    for mine, theirs in zip(one.updates, other.updates, strict=True):
        assert mine.updated == theirs.updated
        assert mine.loss == pytest.approx(theirs.loss, abs=EXACT)
        assert mine.grad_norm == pytest.approx(theirs.grad_norm, abs=EXACT)
        assert (mine.lr, mine.completions, mine.tokens) == (theirs.lr, theirs.completions, theirs.tokens)
        assert mine.gap is not None
        assert theirs.gap is not None
        assert (mine.gap.mean, mine.gap.max) == pytest.approx((theirs.gap.mean, theirs.gap.max), abs=1e-6)  # float32
    for some, others in zip(one.gradients, other.gradients, strict=True):
        assert some.keys() == others.keys()
        for name, value in others.items():
            torch.testing.assert_close(some[name], value, rtol=0, atol=EXACT, msg=name)


STEPS = [
    GROUPS,
    [make_group("one", "pffp", version=1)],  # split over the ranks, or less than one row each
    [make_group("none", "pp", version=2), make_group("neither", "pe", version=2)],
    [make_group(name, "pf", version=2, lengths=(2, 30)) for name in "vwxyz"],
]


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("kind", MODELS)
def test_two_and_three_processes_give_the_loss_and_the_gradients_of_one(kind: str, size: int, tmp_path: Path) -> None:
    alone = learn(World(), STEPS, kind)
    together = run(size, learn, STEPS, kind, out=tmp_path / "out")
    for one in together:
        assert_equal(one, alone)
        assert one.updates == together[0].updates  # metrics are identical on every rank
    for name, value in alone.weights.items():
        torch.testing.assert_close(together[0].weights[name], value, rtol=0, atol=1e-8, msg=name)
    assert [update.updated for update in alone.updates] == [True, True, False, True]
    assert any(empty for one in together for _, empty in one.batches)
    for numbers in zip(*(one.batches for one in together), strict=True):
        assert len({count for count, _ in numbers}) == 1  # every rank the same number, or the others would wait


def test_the_gradient_of_three_processes_is_the_definition(tmp_path: Path) -> None:
    expected = plain_gradients(exact_model("llama"), GROUPS, temperature=0.8)
    (one, *_) = run(3, learn, [GROUPS], out=tmp_path / "out")
    for name, value in expected.items():
        torch.testing.assert_close(one.gradients[0][name], value, rtol=0, atol=EXACT, msg=name)


@pytest.mark.parametrize("lora", [False, True], ids=["a reference model", "adapters, whose base is the reference"])
def test_the_kl_penalty_and_adapters_are_those_of_one_process(lora: bool, tmp_path: Path) -> None:
    steps = [GROUPS, [make_group("second", "ppf", version=1)]]
    alone = learn(World(), steps, lora=lora, kl_beta=0.1)
    together = run(2, partial(learn, lora=lora, kl_beta=0.1), steps, out=tmp_path / "out")
    assert_equal(together[0], alone)
    for one, other in zip(together[0].updates, alone.updates, strict=True):
        assert one.kl is not None
        assert other.kl is not None
        assert one.kl.mean == pytest.approx(other.kl.mean, abs=EXACT)
    assert together[0].weights.keys() == alone.weights.keys()  # adapters merged, names of the base model
    for name, value in alone.weights.items():
        torch.testing.assert_close(together[0].weights[name], value, rtol=0, atol=1e-8, msg=name)


def test_gradient_checkpointing_and_any_budget_give_the_same_gradient(tmp_path: Path) -> None:
    alone = learn(World(), [GROUPS], micro_batch_tokens=4096)
    for budget in (1, 4096):
        changes = {"gradient_checkpointing": True, "micro_batch_tokens": budget}
        assert_equal(run(2, partial(learn, **changes), [GROUPS], out=tmp_path / str(budget))[0], alone)


def test_the_off_policy_guard_and_the_entropy_are_those_of_one_process(tmp_path: Path) -> None:
    changes = {"importance_cap": 1.5, "log_entropy": True}
    alone = learn(World(), [GROUPS], **changes)
    together = run(3, partial(learn, **changes), [GROUPS], out=tmp_path / "out")
    (one,), (other,) = together[0].updates, alone.updates
    assert together[1].updates == [one]
    assert_equal(together[0], alone)
    assert one.entropy == pytest.approx(other.entropy, abs=EXACT)
    assert one.importance is not None
    assert other.importance is not None
    assert one.importance.capped_share == other.importance.capped_share
    assert one.importance.effective_share == pytest.approx(other.importance.effective_share, abs=EXACT)


def bits_before_and_after(world: World, groups: list[Group]) -> list[dict[str, torch.Tensor]] | None:
    if not world.leads:
        follow(world, lambda: world.together(lambda: build(world)))
        return None
    learner = world.together(lambda: build(world))
    states = []
    for step in ([make_group("first", "pf")], groups):
        learner.step(step)
        states.append({name: value.clone() for name, value in learner.named_weights()})
    return states


def test_a_step_without_a_mixed_group_leaves_every_shard_bit_identical(tmp_path: Path) -> None:
    nothing = [make_group("x", "pp", version=1), make_group("y", "ff", version=1), make_group("z", "pe", version=1)]
    (states, _) = run(2, bits_before_and_after, nothing, out=tmp_path / "out")
    assert_same_bits(*states)


def scores(world: World) -> list[list[float]] | None:
    pairs = [((5, 6, 7), (8, 9)), ((5,), (6, 7, 8)), ((9, 9), ())]
    if not world.leads:
        follow(world, lambda: world.together(lambda: build(world)))
        return None
    return world.together(lambda: build(world)).score(pairs, 0.7)


def test_scores_come_back_in_order_whoever_computed_them(tmp_path: Path) -> None:
    (together, *_) = run(3, scores, out=tmp_path / "out")
    for one, other in zip(together, scores(World()) or [], strict=True):
        assert one == pytest.approx(other, abs=1e-6)


def test_one_group_occupies_all_workers_and_the_idle_one_gets_empty_micro_batches() -> None:
    scorer = build(World()).scorer
    group = [Scored(i, (1, 2, 3), (4,) * 10) for i in range(8)]  # 83 tokens, 42 a worker: 3 + 30 fit, 43 do not
    sizes = [[len(row) for rows in part for row in rows] for part in scorer.shares(group, 4096, 2)]
    assert sizes == [[33, 23], [33]]
    lone = scorer.shares(group[:1], 4096, 3)
    assert [part[0] is NOTHING for part in lone] == [False, True, True]


def test_without_torchrun_a_process_is_alone_and_half_an_environment_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    with joined() as world:
        assert (world.rank, world.size, world.leads) == (0, 1, True)
        assert world.gather(3) == [3]
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigError, match=r"WORLD_SIZE = 2, but .* start several processes with: torchrun"), joined():
        pass
