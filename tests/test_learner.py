"""The learner against the plain definition of the loss, in float64."""

import copy
import math
import random
from dataclasses import replace

import pytest
import torch
from tiny import character_tokenizer, tiny_llama
from transformers import (
    Gemma2Config,
    Gemma2ForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    MistralConfig,
    MistralForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from rloo_verify.config import LearnerConfig, LoraConfig
from rloo_verify.errors import OffPolicyError
from rloo_verify.learner import Learner
from rloo_verify.logprobs import Layout
from rloo_verify.types import Completion, FinishReason, Group, Outcome, Problem, Verdict

VOCABULARY = len(character_tokenizer())


def make_group(name, outcomes, *, seed=0, version=0, lengths=(1, 9), prompt_length=6):
    """A group with random tokens; `outcomes` is a string of p(ass), f(ail), e(rror)."""
    rng = random.Random(f"{name}{seed}")
    words = {"p": Outcome.PASS, "f": Outcome.FAIL, "e": Outcome.ERROR}
    prompt = tuple(rng.randrange(4, VOCABULARY) for _ in range(prompt_length))
    problem = Problem(name, "t", (), "", "", prompt_token_ids_T=prompt)
    completions = []
    for i in range(len(outcomes)):
        ids = tuple(rng.randrange(4, VOCABULARY) for _ in range(rng.randint(*lengths)))
        completions.append(
            Completion(name, i, ids, tuple(-1.0 for _ in ids), "", FinishReason.STOP, version, rng.randrange(99))
        )
    return Group(problem, completions, [Verdict(words[o], "test") for o in outcomes])


def config(**changes):
    return LearnerConfig(**{"lr": 1e-3, "max_grad_norm": 1e9, "micro_batch_tokens": 4096} | changes)


def plain_gradients(model, groups, temperature=1.0):
    """-(1/N) sum_i A_i sum_t log p, one sequence at a time, advantages by their definition."""
    model.zero_grad()
    judged = [g for g in groups if sum(r is not None for r in g.rewards_G) >= 2]
    count = sum(r is not None for g in judged for r in g.rewards_G)
    total = 0
    for group in judged:
        rewards = [r for r in group.rewards_G if r is not None]
        for completion, reward in zip(group.completions_G, group.rewards_G, strict=True):
            if reward is None or not completion.token_ids_T:
                continue
            others = (sum(rewards) - reward) / (len(rewards) - 1)
            prompt = group.problem.prompt_token_ids_T
            ids = torch.tensor([prompt + completion.token_ids_T])
            logits = model(input_ids=ids).logits[0, len(prompt) - 1 : -1] / temperature
            logprob = logits.log_softmax(-1).gather(-1, ids[0, len(prompt) :, None]).sum()
            total = total - (reward - others) * logprob / count
    total.backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def learner_gradients(model, groups, **changes):
    """The gradient that `Learner.step` would apply."""
    temperature = changes.pop("temperature", 1.0)
    learner = Learner(copy.deepcopy(model), config(**changes), temperature=temperature)
    gradients = {}

    def capture(*_):
        gradients.update({n: p.grad.clone() for n, p in learner.model.named_parameters() if p.grad is not None})

    learner.optimizer.register_step_pre_hook(capture)
    learner.step(groups)
    return gradients, learner


def assert_close(gradients, expected, *, atol):
    """The rotary embedding is computed in float32 by the models themselves, which limits them to about 1e-7."""
    assert gradients.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(gradients[name], value, rtol=0, atol=atol)


GROUPS = [
    make_group("a", "pfff"),
    make_group("b", "pp"),
    make_group("c", "ppfef", lengths=(0, 12)),
    make_group("d", "pe"),
    make_group("e", "ffff"),
    make_group("f", "fp", prompt_length=3),
]


@pytest.mark.parametrize("budget", [4096, 64, 20, 1])
@pytest.mark.parametrize("tied", [False, True])
def test_the_gradient_equals_the_definition_for_any_micro_batch_budget(budget, tied):
    model = tiny_llama(tied=tied).double()
    expected = plain_gradients(model, GROUPS)
    gradients, _ = learner_gradients(model, GROUPS, micro_batch_tokens=budget)
    assert_close(gradients, expected, atol=3e-7)


def test_the_gradient_does_not_depend_on_the_order_of_the_groups():
    model = tiny_llama().double()
    forward, _ = learner_gradients(model, GROUPS, micro_batch_tokens=64)
    backward, _ = learner_gradients(model, GROUPS[::-1], micro_batch_tokens=100)
    assert_close(backward, forward, atol=3e-7)


def test_temperature_divides_the_logits():
    model = tiny_llama().double()
    expected = plain_gradients(model, GROUPS, temperature=0.7)
    gradients, _ = learner_gradients(model, GROUPS, temperature=0.7)
    assert_close(gradients, expected, atol=3e-7)


SMALL = {"vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
         "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 128}  # fmt: skip


@pytest.mark.parametrize(
    ("model", "layout"),
    [
        (Qwen2ForCausalLM(Qwen2Config(**SMALL)), Layout.SHARED),
        (Qwen3ForCausalLM(Qwen3Config(**SMALL, head_dim=16, tie_word_embeddings=True)), Layout.SHARED),
        (
            GPT2LMHeadModel(GPT2Config(vocab_size=VOCABULARY, n_embd=32, n_layer=2, n_head=2, n_positions=128)),
            Layout.SHARED,
        ),
        (MistralForCausalLM(MistralConfig(**SMALL, sliding_window=4)), Layout.PLAIN),
        (Gemma2ForCausalLM(Gemma2Config(**SMALL, head_dim=16, sliding_window=4)), Layout.WHOLE),
    ],
    ids=["qwen2", "qwen3 tied", "gpt2 with dropout", "a sliding window shorter than the sequence", "soft caps"],
)
def test_other_architectures_give_the_defined_gradient_in_the_cheapest_layout_that_is_exact(model, layout):
    model = model.double()
    model.eval()
    expected = plain_gradients(model, GROUPS)
    gradients, learner = learner_gradients(model, GROUPS)
    assert learner.scorer.layout is layout
    assert_close(gradients, expected, atol=1e-10 if isinstance(model, GPT2LMHeadModel) else 3e-7)


def snapshot(learner):
    return copy.deepcopy(learner.state())


def assert_same(a, b):
    if isinstance(a, dict):
        assert a.keys() == b.keys()
        for key in a:
            assert_same(a[key], b[key])
    elif isinstance(a, torch.Tensor):
        assert torch.equal(a, b)
    else:
        assert a == b


def test_a_step_without_a_mixed_group_leaves_parameters_and_optimizer_bit_identical():
    learner = Learner(tiny_llama(), config())
    learner.step([GROUPS[0]])
    before = snapshot(learner)
    update = learner.step(
        [make_group("x", "pp", version=1), make_group("y", "ff", version=1), make_group("z", "pe", version=1)]
    )
    assert not update.updated
    assert update.gap is not None  # sampler and learner are compared all the same
    assert_same(before, snapshot(learner))


def test_no_signal_groups_are_not_computed():
    learner = Learner(tiny_llama(), config())
    update = learner.step(GROUPS)
    mixed = [GROUPS[0], GROUPS[2], GROUPS[5]]
    judged = [c for g in mixed for c, r in zip(g.completions_G, g.rewards_G, strict=True) if r is not None]
    assert update.tokens == sum(len(c.token_ids_T) for c in judged)
    prompts = [len(g.problem.prompt_token_ids_T) for g in mixed]
    assert update.tokens_computed == update.tokens + sum(prompts)  # each prompt once
    sharing = [sum(bool(c.token_ids_T) and r is not None for c, r in zip(g.completions_G, g.rewards_G)) for g in mixed]  # noqa: B905
    assert update.tokens_saved == sum((n - 1) * length for n, length in zip(sharing, prompts, strict=True))


def test_a_stale_completion_is_refused():
    learner = Learner(tiny_llama(), config())
    learner.step([GROUPS[0]])
    with pytest.raises(OffPolicyError, match="drawn by policy version 0 but the learner is at version 1"):
        learner.step([GROUPS[0]])


def test_warm_up_scales_the_learning_rate():
    learner = Learner(tiny_llama(), config(warmup_steps=4, lr=0.1))
    rates = [learner.step([make_group("a", "pf", version=v)]).lr for v in range(5)]
    assert rates == pytest.approx([0.025, 0.05, 0.075, 0.1, 0.1])


def test_the_gap_is_the_mean_and_the_maximum_over_tokens():
    model = tiny_llama()
    learner = Learner(model, config())
    group = make_group("a", "pf", lengths=(3, 3))
    exact = learner.score([(group.problem.prompt_token_ids_T, c.token_ids_T) for c in group.completions_G], 1.0)
    shifted = [
        Completion(c.problem_id, i, c.token_ids_T, (v[0] + 0.5, v[1], v[2]), "", c.finish_reason, 0, 0)
        for i, (c, v) in enumerate(zip(group.completions_G, exact, strict=True))
    ]
    update = learner.step([Group(group.problem, shifted, group.verdicts_G)])
    assert update.gap.max == pytest.approx(0.5, abs=1e-5)
    assert update.gap.mean == pytest.approx(0.5 / 3, abs=1e-5)


def test_the_kl_penalty_trains_groups_without_signal_towards_the_reference():
    """An all-pass group whose completions differ in KL: shaped rewards differ, so it is trained for the KL alone."""
    model, reference = tiny_llama(), tiny_llama(seed=5)
    learner = Learner(model, config(kl_beta=0.1), reference=reference)
    group = make_group("a", "pp", lengths=(4, 4))
    plain = Learner(tiny_llama(seed=5), config())
    pairs = [(group.problem.prompt_token_ids_T, c.token_ids_T) for c in group.completions_G]
    kl = [-4.0 - sum(values) for values in plain.score(pairs, 1.0)]  # the sampler's log-probs are -1 a token
    update = learner.step([group])
    assert update.updated
    assert update.kl.mean == pytest.approx(sum(kl) / 2, rel=1e-4)
    assert update.kl.shaped_reward_mean == pytest.approx(1 - 0.1 * sum(kl) / 2, rel=1e-4)


def test_state_restores_the_same_bits(tmp_path):
    learner = Learner(tiny_llama(), config())
    learner.step([make_group("a", "pf")])
    learner.save_state(tmp_path)
    after = learner.step([make_group("b", "pf", version=1)])
    other = Learner(tiny_llama(seed=9), config())
    other.load_state(tmp_path)
    assert other.step([make_group("b", "pf", version=1)]) == after
    assert_same(snapshot(other), snapshot(learner))


def test_adapters_train_and_merge_while_the_base_stays_bit_identical_over_100_syncs():
    model = tiny_llama()
    base = {name: p.detach().clone() for name, p in model.named_parameters()}
    learner = Learner(model, config(lr=1e-2), lora=LoraConfig(rank=4))
    for version in range(3):
        learner.step([make_group("a", "pf", version=version)])
    for _ in range(100):
        merged = {name: value.clone() for name, value in learner.named_weights()}
    assert merged.keys() == base.keys()
    for name, parameter in learner.model.named_parameters():
        if ".lora_" not in name:
            assert torch.equal(parameter, base[name.replace(".base_layer", "")])
    plain = tiny_llama()
    plain.load_state_dict(merged)
    pair = [((5, 6, 7), (8, 9, 10))]
    assert Learner(plain, config()).score(pair, 1.0)[0] == pytest.approx(learner.score(pair, 1.0)[0], abs=1e-5)
    assert not torch.equal(
        merged["model.layers.0.self_attn.q_proj.weight"], base["model.layers.0.self_attn.q_proj.weight"]
    )


def test_the_kl_reference_of_adapters_is_the_base_model():
    learner = Learner(tiny_llama(), config(lr=1e-2, kl_beta=0.1), lora=LoraConfig(rank=4))
    first = learner.step([make_group("a", "pf")])
    pair = make_group("a", "pf")
    base = Learner(tiny_llama(), config())
    pairs = [(pair.problem.prompt_token_ids_T, c.token_ids_T) for c in pair.completions_G]
    kl = [sum(c.logprobs_T) - sum(v) for c, v in zip(pair.completions_G, base.score(pairs, 1.0), strict=True)]
    assert first.kl.mean == pytest.approx(sum(kl) / 2, rel=1e-4)
    assert learner.step([make_group("a", "pf", version=1)]).kl.mean == pytest.approx(first.kl.mean, rel=1e-4)


def test_gradient_checkpointing_does_not_change_the_gradient():
    model = tiny_llama().double()
    plain, _ = learner_gradients(model, GROUPS)
    checkpointed, _ = learner_gradients(model, GROUPS, gradient_checkpointing=True)
    for name, value in plain.items():
        torch.testing.assert_close(checkpointed[name], value)


def test_the_guard_multiplies_each_advantage_by_the_truncated_ratio_of_its_completion():
    model = tiny_llama().double()
    group = make_group("a", "pff")
    learner = Learner(copy.deepcopy(model), config())
    pairs = [(group.problem.prompt_token_ids_T, c.token_ids_T) for c in group.completions_G]
    sums = [sum(values) for values in learner.score(pairs, 1.0)]
    # the sampler's sums are higher by 1 nat for the first, equal for the second, lower by 5 for the third
    drawn = [replace(c, logprobs_T=((s + d) / len(c.token_ids_T),) * len(c.token_ids_T))
             for c, s, d in zip(group.completions_G, sums, [1.0, 0.0, -5.0], strict=True)]  # fmt: skip
    shifted = Group(group.problem, drawn, group.verdicts_G)
    weights = [math.exp(-1), 1.0, 2.0]  # e^5 is cut
    gradients = []
    for i in range(3):
        model.zero_grad()
        prompt, ids = pairs[i]
        logits = model(torch.tensor([[*prompt, *ids]])).logits[0, len(prompt) - 1 : -1].log_softmax(-1)
        logits.gather(-1, torch.tensor(ids)[:, None]).sum().backward()
        gradients.append({name: p.grad.clone() for name, p in model.named_parameters()})
    ours, _ = learner_gradients(model, [shifted], importance_cap=2.0)
    for name, value in ours.items():
        expected = -sum(w * a * g[name] for w, a, g in zip(weights, [1, -0.5, -0.5], gradients, strict=True)) / 3
        torch.testing.assert_close(value, expected, rtol=1e-5, atol=1e-6)
    update = Learner(model, config(importance_cap=2.0)).step([shifted])
    assert update.importance.capped_share == pytest.approx(1 / 3)
    squares = sum(weights) ** 2 / (3 * sum(w * w for w in weights))
    assert update.importance.effective_share == pytest.approx(squares, rel=1e-6)


def test_the_guard_is_off_by_default():
    assert Learner(tiny_llama(), config()).step(GROUPS).importance is None


def test_the_step_counts_operations_and_no_padding_where_rows_are_packed():
    learner = Learner(tiny_llama(), config())
    update = learner.step([make_group("a", "pf", lengths=(5, 5))])
    assert update.tokens_padding == 0
    assert update.tokens_computed == 6 + 5 + 5
    assert update.flops > 0
    assert update.peak_flops > 1e8


def test_padding_is_counted_where_completions_have_rows_of_their_own():
    learner = Learner(tiny_llama(), config())
    learner.scorer.layout = Layout.PLAIN
    learner.scorer._use_attention()
    group = make_group("a", "pf")
    short, long = sorted(len(c.token_ids_T) for c in group.completions_G)
    assert learner.step([group]).tokens_padding == long - short


def test_entropy_is_logged_where_asked_for_and_near_its_maximum_for_random_weights():
    group = make_group("a", "pf")
    assert Learner(tiny_llama(), config()).step([group]).entropy is None
    entropy = Learner(tiny_llama(), config(log_entropy=True)).step([group]).entropy
    model = tiny_llama()
    total = tokens = 0.0
    for one in group.completions_G:
        ids = (*group.problem.prompt_token_ids_T, *one.token_ids_T)
        logprobs = model(torch.tensor([ids])).logits[0, -len(one.token_ids_T) - 1 : -1].log_softmax(-1)
        total -= (logprobs.exp() * logprobs).sum().item()
        tokens += len(one.token_ids_T)
    assert entropy == pytest.approx(total / tokens, rel=1e-4)
