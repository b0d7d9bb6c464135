"""The estimator against hand-worked numbers and against brute force over every completion of a tiny policy."""

import itertools
import math

import pytest
import torch

from rloo_verify.rloo import kl_penalized_rewards, leave_one_out_advantages, leave_one_out_baselines, rloo_loss


def test_the_worked_example_holds_down_to_the_gradients():
    rewards = torch.tensor([1.0, 0.0, 0.0, 0.0], dtype=torch.float64)
    third = 1 / 3
    # baseline of the first: mean(0,0,0) = 0; of the others: mean(1,0,0) = 1/3
    torch.testing.assert_close(leave_one_out_baselines(rewards), torch.tensor([0, third, third, third]).double())
    advantages = leave_one_out_advantages(rewards)
    torch.testing.assert_close(advantages, torch.tensor([1, -third, -third, -third]).double())
    logprobs = torch.tensor([-1.0, -2.0, -3.0, -4.0], dtype=torch.float64, requires_grad=True)
    loss = rloo_loss(logprobs, advantages, 4)
    # -(1/4) * (1 * -1 - 1/3 * (-2 - 3 - 4)) = -(1/4) * (-1 + 3) = -0.5
    assert loss.item() == pytest.approx(-0.5)
    loss.backward()
    # d loss / d log-prob_i = -A_i / 4
    torch.testing.assert_close(logprobs.grad, torch.tensor([-0.25, 1 / 12, 1 / 12, 1 / 12]).double())


@pytest.mark.parametrize("size", [2, 3, 8, 17])
def test_advantages_equal_the_scaled_deviation_from_the_mean(size):
    rewards = torch.randn(5, size, dtype=torch.float64, generator=torch.Generator().manual_seed(size))
    expected = size / (size - 1) * (rewards - rewards.mean(-1, keepdim=True))
    torch.testing.assert_close(leave_one_out_advantages(rewards), expected)


@pytest.mark.parametrize("constant", [0.0, 1.0, 0.1, 1 / 3, 1e8])
@pytest.mark.parametrize("size", [2, 3, 7, 64])
def test_identical_rewards_give_advantages_of_exactly_zero(constant, size):
    assert torch.equal(leave_one_out_advantages(torch.full((size,), constant)), torch.zeros(size))


def test_excluded_completions_leave_the_numerator_and_the_divisor():
    rewards = torch.tensor([1.0, float("nan"), 0.0, 0.0])
    valid = torch.tensor([True, False, True, True])
    # of the three valid ones [1, 0, 0]: baselines [0, 1/2, 1/2]
    torch.testing.assert_close(leave_one_out_baselines(rewards, valid), torch.tensor([0.0, 0.0, 0.5, 0.5]))
    torch.testing.assert_close(leave_one_out_advantages(rewards, valid), torch.tensor([1.0, 0.0, -0.5, -0.5]))


@pytest.mark.parametrize("valid", [[False, False, False], [False, True, False]])
def test_fewer_than_two_judged_completions_have_no_advantage(valid):
    rewards = torch.tensor([float("nan"), 1.0, float("nan")])
    assert torch.equal(leave_one_out_advantages(rewards, torch.tensor(valid)), torch.zeros(3))
    assert torch.equal(leave_one_out_baselines(rewards, torch.tensor(valid)), torch.zeros(3))


def test_a_group_of_one_has_no_advantage():
    assert leave_one_out_advantages(torch.tensor([1.0])).item() == 0.0


def test_advantages_and_baselines_carry_no_gradient():
    rewards = torch.tensor([1.0, 0.0], requires_grad=True)
    assert not leave_one_out_advantages(rewards).requires_grad
    assert not leave_one_out_baselines(rewards).requires_grad


def test_groups_are_independent_along_the_last_axis():
    rewards = torch.tensor([[1, 0, 0], [1, 1, 0]])
    torch.testing.assert_close(leave_one_out_advantages(rewards), torch.tensor([[1.0, -0.5, -0.5], [0.5, 0.5, -1.0]]))


def test_wrong_shapes_are_refused():
    with pytest.raises(ValueError, match="valid has shape"):
        leave_one_out_advantages(torch.zeros(3), torch.ones(2, dtype=torch.bool))
    with pytest.raises(ValueError, match="advantages"):
        rloo_loss(torch.zeros(3), torch.zeros(2), 3)
    with pytest.raises(ValueError, match="at least 1"):
        rloo_loss(torch.zeros(2), torch.zeros(2), 0)


def sequence_logprobs(theta: torch.Tensor) -> torch.Tensor:
    """Log-probs [9] of all two-token completions over three tokens; theta is [3 states, 3 tokens]."""
    first = theta[0].log_softmax(-1)
    second = theta[1:].log_softmax(-1)  # the second token depends on whether the first was token 0
    return torch.stack([first[a] + second[0 if a == 0 else 1][b] for a, b in itertools.product(range(3), repeat=2)])


@pytest.mark.parametrize("group_sizes", [(2,), (3,), (2, 3)])
def test_the_expected_gradient_is_the_policy_gradient_by_enumeration(group_sizes):
    """Every joint outcome of every group, weighted with its probability, in float64; also with unequal groups."""
    theta = torch.randn(3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1), requires_grad=True)
    rewards = torch.tensor([0.0, 1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 1.0], dtype=torch.float64)
    logprobs = sequence_logprobs(theta)
    (true_gradient,) = torch.autograd.grad((logprobs.exp() * rewards).sum(), theta, retain_graph=True)

    num_completions = sum(group_sizes)
    expected_loss = torch.zeros((), dtype=torch.float64)
    for size in group_sizes:  # groups are independent, so the expectation of the sum is the sum of expectations
        for outcome in itertools.product(range(9), repeat=size):
            index = torch.tensor(outcome)
            probability = logprobs.detach()[index].sum().exp()
            loss = rloo_loss(logprobs[index], leave_one_out_advantages(rewards[index]), num_completions)
            expected_loss = expected_loss + probability * loss
    (gradient,) = torch.autograd.grad(expected_loss, theta)
    torch.testing.assert_close(gradient, -true_gradient, rtol=1e-10, atol=1e-12)


def test_the_kl_penalty_enters_the_reward_once():
    """By enumeration: d loss-gradient / d beta equals the gradient of KL(policy || reference), once and not twice."""
    generator = torch.Generator().manual_seed(2)
    theta = torch.randn(3, 3, dtype=torch.float64, generator=generator, requires_grad=True)
    reference = sequence_logprobs(torch.randn(3, 3, dtype=torch.float64, generator=generator))
    rewards = torch.tensor([0.0, 1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 1.0], dtype=torch.float64)
    logprobs = sequence_logprobs(theta)
    kl = (logprobs.exp() * (logprobs - reference)).sum()
    (kl_gradient,) = torch.autograd.grad(kl, theta, retain_graph=True)

    def expected_gradient(beta: float) -> torch.Tensor:
        total = torch.zeros((), dtype=torch.float64)
        for outcome in itertools.product(range(9), repeat=2):
            index = torch.tensor(outcome)
            shaped = kl_penalized_rewards(rewards[index], logprobs[index], reference[index], beta)
            loss = rloo_loss(logprobs[index], leave_one_out_advantages(shaped), 2)
            total = total + logprobs.detach()[index].sum().exp() * loss
        return torch.autograd.grad(total, theta, retain_graph=True)[0]

    beta = 0.3
    slope = (expected_gradient(beta) - expected_gradient(0.0)) / beta
    torch.testing.assert_close(slope, kl_gradient, rtol=1e-9, atol=1e-12)


def test_the_kl_penalty_is_k1_summed_over_tokens_and_detached():
    logprob_sums = torch.tensor([-1.0, -2.0], requires_grad=True)
    shaped = kl_penalized_rewards(torch.tensor([1.0, 0.0]), logprob_sums, torch.tensor([-1.5, -1.0]), 0.1)
    # 1 - 0.1 * (-1 + 1.5) = 0.95; 0 - 0.1 * (-2 + 1) = 0.1
    torch.testing.assert_close(shaped, torch.tensor([0.95, 0.1]))
    assert not shaped.requires_grad


def test_the_loss_of_subsets_adds_up_to_the_loss_of_the_whole():
    logprobs = torch.randn(6, dtype=torch.float64)
    advantages = leave_one_out_advantages(torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 1.0]])).double().flatten()
    parts = sum(rloo_loss(logprobs[i : i + 2], advantages[i : i + 2], 6).item() for i in (0, 2, 4))
    assert math.isclose(parts, rloo_loss(logprobs, advantages, 6).item())
