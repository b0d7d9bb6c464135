"""Proofs that a sandbox still works: a known-good and a known-bad program, and a look around after a run."""

import json

from rloo_verify.sandbox.box import Box, BoxError, Job, RunResult
from rloo_verify.sandbox.inside import values
from rloo_verify.sandbox.inside.frames import unpack_all


def prove(box: Box) -> None:
    """Runs a known-good and a known-bad program.

    Raises:
        BoxError: One of them did not do what it must.
    """
    call = {"op": "call", "name": "f", "args": [values.encode(20)]}
    for source, expected in (("def f(x): return 2 * x + 2", 42), ("def f(x): return x", 20)):
        result = box.run(Job({"mode": "serve", "sources": [source]}, requests=(call,)))
        found = [json.loads(reply) for reply in unpack_all(result.replies)]
        if [reply.get("value") for reply in found] != [None, values.encode(expected)]:
            raise BoxError(f"{box.stream.name} failed its canary: {found} {result.stderr[-300:]!r}")
    box.proved = box.runs


_PROBE = """\
import os
def user(pid):
    try:
        return int(open(f"/proc/{pid}/status").read().partition("\\nUid:")[2].split()[0])
    except OSError:
        return 0
pids = [name for name in os.listdir("/proc") if name.isdigit()]
print(*(pid for pid in pids if user(pid)))  # root's are the sandbox's own
print(os.getpid(), os.getppid(), os.getcwd())
print(*os.listdir("/tmp"), *os.listdir("/dev/shm"))
"""

PROBE = Job({"mode": "script", "sources": [_PROBE]})
"""Looks around inside a sandbox."""


def leftovers(result: RunResult) -> str:
    """What the probe saw that should not be there: processes or files of earlier runs; empty where all is well."""
    try:
        processes, own, files = result.stdout.decode().split("\n")[:3]
        pid, parent, folder = own.split()
    except ValueError:
        return f"the probe said {result.stdout[-200:]!r} {result.stderr[-200:]!r}"
    strangers = set(processes.split()) - {"1", pid, parent}
    left = set(files.split()) - {folder.rpartition("/")[2]}
    findings = [f"processes {sorted(strangers)}"] * bool(strangers) + [f"files {sorted(left)}"] * bool(left)
    return " and ".join(findings)
