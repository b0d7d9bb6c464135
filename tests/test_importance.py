"""The off-policy guard's weights, by hand."""

import math

import pytest
import torch

from rloo_verify.importance import importance_statistics, log_ratios, truncated_weights


def test_weights_are_the_ratios_of_whole_completions_up_to_the_cap():
    ratios = log_ratios(torch.tensor([-1.0, -2.0, -2.0]), torch.tensor([-2.0, -2.0, -3.0 - math.log(4)]))
    # e^1 = 2.718 and e^(1 + log 4) = 10.9 are cut to 2, e^0 = 1
    torch.testing.assert_close(truncated_weights(ratios, 2.0), torch.tensor([2.0, 1.0, 2.0], dtype=torch.float64))


def test_weights_do_not_overflow():
    assert truncated_weights(torch.tensor([1e9, -1e9], dtype=torch.float64), 3.0).tolist() == [pytest.approx(3.0), 0.0]


def test_statistics_by_hand():
    ratios = torch.tensor([math.log(5), 0.0, math.log(0.5), math.log(2)], dtype=torch.float64)
    found = importance_statistics(ratios, 2.0)
    # weights 2, 1, 0.5, 2: (5.5)^2 / (4 * 9.25) = 0.8176; only the first was above the cap
    assert found.effective_share == pytest.approx(5.5**2 / (4 * (4 + 1 + 0.25 + 4)))
    assert found.capped_share == 0.25


def test_equal_weights_are_worth_all_completions_however_small():
    assert importance_statistics(torch.full((3,), -900.0, dtype=torch.float64), 2.0).effective_share == 1.0


def test_a_step_without_completions_has_no_statistics():
    assert importance_statistics(torch.empty(0, dtype=torch.float64), 2.0) is None
