"""Reads how a run ended: the reason why it counts as failed, and what the program answered."""

import json
from collections.abc import Mapping
from typing import Any

from rloo_verify.sandbox.box import RunResult
from rloo_verify.sandbox.inside.frames import unpack_all
from rloo_verify.sandbox.settings import Limits

LONGEST_DETAIL = 300

_KILLED = {"cpu": "time_limit", "wall": "time_limit", "memory": "memory_limit", "output": "output_limit"}
_SIGXCPU, _SIGKILL, _SIGXFSZ = 24, 9, 25


def trouble_of(result: RunResult, limits: Limits) -> tuple[str, str] | None:
    """Why a run counts as failed whatever it answered; None where it ended well."""
    stages = replies_of(result.replies)
    if stages and stages[0].get("stage") == "compile_error":
        return "compile_error", str(stages[0].get("message", ""))
    if result.killed in _KILLED:
        return _KILLED[result.killed], f"{result.cpu:.2f} s of CPU time, {result.wall:.2f} s, {result.peak_mib:.0f} MiB"
    if result.cpu > limits.cpu_seconds or result.signal == _SIGXCPU:
        return "time_limit", f"{result.cpu:.2f} s of CPU time"
    if result.peak_mib > limits.memory_mib or result.signal == _SIGKILL:
        return "memory_limit", f"{result.peak_mib:.0f} MiB"
    if result.signal == _SIGXFSZ:
        return "output_limit", "it wrote too large a file"
    if result.signal is not None:
        return "runtime_error", f"signal {result.signal}"
    if result.exit:
        said = shortened(result.stderr[-2000:].strip().rpartition(b"\n")[2])
        return ("memory_limit" if "MemoryError" in said else "runtime_error"), f"exit status {result.exit}: {said}"
    return None


def raised_of(reply: Mapping[str, Any]) -> tuple[str, str]:
    """Reason and detail of a call that raised."""
    raised = reply.get("raised")
    if not isinstance(raised, dict):
        return "runtime_error", "it answered nonsense"
    reason = "memory_limit" if raised.get("type") == "MemoryError" else "runtime_error"
    return reason, f"{raised.get('type')}: {raised.get('message')}"[:LONGEST_DETAIL]


def replies_of(data: bytes) -> list[dict[str, Any]]:
    """The messages that a program's channel carried; an empty one for each that is no object."""
    replies = []
    for body in unpack_all(data):
        try:
            reply = json.loads(body)
        except (ValueError, RecursionError):
            reply = {}
        replies.append(reply if isinstance(reply, dict) else {})
    return replies


def first_reply(data: bytes) -> dict[str, Any] | None:
    """The program's answer to the first call; None where there is none."""
    return next((reply for reply in replies_of(data) if "stage" not in reply), None)


def shortened(value: object) -> str:
    """A value for a message."""
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    if not isinstance(text, str):
        try:
            text = repr(text)
        except (ValueError, RecursionError):  # an integer of more digits than Python prints
            text = f"a {type(value).__name__} too large to print"
    return text if len(text) <= 120 else text[:100] + f"... ({len(text)} characters)"
