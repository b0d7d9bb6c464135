"""Claims of the README's table that no other test states."""

import pytest
from groups import judged_group

from rloo_verify.advantages import advantages_by_number
from rloo_verify.metrics import step_metrics
from rloo_verify.update import Update


def test_groups_without_signal_are_counted_on_raw_verdicts_while_the_kl_trains_them() -> None:
    """TRL decides on shaped rewards: 1 - 0.1 * 2 and 1 - 0.1 * 4 differ, so it counts no such group."""
    group = judged_group("a", "pp")  # three tokens of -0.5: -1.5 each under the policy
    advantages, kl = advantages_by_number([group], {0: -3.5, 1: -5.5}, beta=0.1)
    assert kl is not None
    # shaped rewards 0.8 and 0.6: each less the other
    assert advantages == pytest.approx({0: 0.2, 1: -0.2})
    assert kl.shaped_reward_mean == pytest.approx(0.7)
    row = step_metrics(1, [group], Update(updated=True, kl=kl), {"sample": 1.0, "learn": 1.0})
    assert (row["frac_all_pass"], row["frac_mixed"]) == (1.0, 0.0)
    assert (row["reward"], row["reward_shaped"]) == (1.0, pytest.approx(0.7))
