"""Engines that draw completions, behind one protocol (`rloo_verify.policy.base.Policy`)."""
