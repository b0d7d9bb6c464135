"""Carries calls between the process of a test file and the process of the program, each in a sandbox of its own."""

import base64
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rloo_verify.sandbox.box import Box, Job, RunResult, pack, patience_seconds
from rloo_verify.sandbox.inside.frames import unpack_all
from rloo_verify.sandbox.settings import Limits

_LONGEST_SESSION_MESSAGE = 32 << 20


@dataclass(frozen=True, slots=True)
class TestReport:
    """What a test file's process said, and how the program's process ended.

    Attributes:
        report: `passed`, `failed`, `calls`, `detail`, perhaps `needs_live` or `needs_module`; None where the tests'
            process ended without a word.
        tests: How the tests' process ended.
        program: How the program's process ended.
    """

    __test__ = False  # no test for pytest to collect

    report: Mapping[str, Any] | None
    tests: RunResult
    program: RunResult


class Relay:
    """Carries calls between the process of a test file and the process of the program."""

    def __init__(self, tests: Box, program: Box) -> None:
        self._tests = tests
        self._program = program
        self._from_tests = bytearray()
        self._from_program = bytearray()
        self._program_end: RunResult | None = None
        self._tests_end: RunResult | None = None

    def run(self, tests: Job, program: Job) -> TestReport:
        """Starts both, relays until the tests report or end, and ends both."""
        self._program.start(program, session=True)
        self._tests.start(tests, session=True)
        deadline = time.monotonic() + patience_seconds(tests.limits) + patience_seconds(program.limits)
        report = None
        loaded = self._next(program=True, limits=program.limits)  # its stage: loaded, or a compile error
        gone = loaded is None or loaded.get("stage") != "loaded"
        while time.monotonic() < deadline:
            request = self._next(program=False, limits=tests.limits)
            if request is None:
                break
            if "report" in request:
                report = request["report"]
                break
            reply = None if gone else self._forward(request, program.limits)
            gone = reply is None
            self._tests.say(pack({"gone": True} if reply is None else reply))
        return self._end(report, tests.limits, program.limits, loaded or {})

    def _forward(self, request: Mapping[str, Any], limits: Limits) -> dict[str, Any] | None:
        """One request to the program and its reply; None where the program is gone."""
        self._program.say(pack(request))
        return self._next(program=True, limits=limits)

    def _next(self, *, program: bool, limits: Limits) -> dict[str, Any] | None:
        """The next message of one of the processes; None where it ended or sent what is no message."""
        box, buffer = (self._program, self._from_program) if program else (self._tests, self._from_tests)
        while not (messages := unpack_all(buffer)):
            if len(buffer) > _LONGEST_SESSION_MESSAGE:
                return None
            event = box.receive(patience_seconds(limits))
            if event.get("event") == "done":
                end = box.result(event)
                if program:
                    self._program_end = end
                else:
                    self._tests_end = end
                return None
            buffer += _bytes_of(event)
        del buffer[: 4 + len(messages[0])]
        try:
            message = json.loads(messages[0])
        except (ValueError, RecursionError):
            return None
        return message if isinstance(message, dict) else None

    def _end(
        self, report: Mapping[str, Any] | None, tests: Limits, program: Limits, loaded: Mapping[str, Any]
    ) -> TestReport:
        if self._tests_end is None:
            self._tests.say(end=True)
            self._tests_end = self._tests.finish(tests)
        if self._program_end is None:
            self._program.say(kill=True)
            self._program_end = self._program.finish(program)
        if loaded.get("stage") == "compile_error":
            report = {"passed": 0, "failed": 1, "compile_error": str(loaded.get("message"))}
        return TestReport(report, self._tests_end, self._program_end)


def _bytes_of(event: Mapping[str, Any]) -> bytes:
    return base64.b64decode(event.get("data", ""))
