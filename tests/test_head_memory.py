"""The chunked head's memory, from torch's own record of every allocation."""

import torch
from torch.profiler import ProfilerActivity, profile

import rloo_verify.head
from rloo_verify.head import chunked_logprobs

TOKENS, WIDTH = 192, 64


def peak_bytes(action):
    """Most bytes that an action holds at a time, beyond what there was before."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        kept = action()
    held = peak = 0
    for event in profiler.profiler.kineto_results.events():
        if event.name() == "[memory]":
            held += event.nbytes()
            peak = max(peak, held)
    del kept
    return peak


def head_bytes(vocabulary):
    """The larger peak of forward and backward, the gradient of the weight aside."""
    hidden, weight = (torch.randn(size, WIDTH, requires_grad=True) for size in (TOKENS, vocabulary))
    targets = torch.randint(vocabulary, (TOKENS,))
    results = []
    forward = peak_bytes(lambda: results.append(chunked_logprobs(hidden, weight, None, targets, 1.0)[0]))
    backward = peak_bytes(lambda: results.pop().sum().backward())
    return max(forward, backward - weight.numel() * weight.element_size())


def test_peak_memory_does_not_grow_with_the_vocabulary(monkeypatch):
    monkeypatch.setattr(rloo_verify.head, "CHUNK_LOGITS", 2**22)
    small, large = head_bytes(32_000), head_bytes(150_000)
    assert abs(large - small) < 0.1 * small
    assert large < 2.2 * 4 * 2**22  # one chunk in float32, and what its log-sum-exp needs; all logits are 115 MB
