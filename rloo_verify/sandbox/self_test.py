"""What `rloo-verify sandbox test` tries: each probe is a program that prints `ok` where the protection holds."""

from collections.abc import Iterator, Mapping

from rloo_verify.sandbox.box import BoxError, Job
from rloo_verify.sandbox.runner import Sandbox
from rloo_verify.sandbox.settings import Limits

_DENIED = """
def denied(action):
    try:
        action()
    except OSError:
        return True
    return False
import ctypes, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
"""

PROBES: Mapping[str, str] = {
    "it runs as a user of its own": "print('ok' if os.getuid() else 'root')",
    "no network socket can be made": "print('ok' if denied(lambda: socket.socket(socket.AF_INET)) else 'a socket')",
    "UNIX sockets work": "socket.socketpair(); print('ok')",
    "the system's folders are read-only": "print('ok' if denied(lambda: open('/usr/written', 'w')) else 'written')",
    "ptrace is denied": "print('ok' if libc.ptrace(0, 0, 0, 0) == -1 else 'ptrace')",
    "new user namespaces are denied": "print('ok' if libc.unshare(0x10000000) == -1 else 'unshare')",
    "System V shared memory is denied": "print('ok' if libc.shmget(0x5eed, 4096, 0o1666) == -1 else 'shmget')",
    "it cannot read the first process": "print('ok' if denied(lambda: open('/proc/1/mem', 'rb')) else 'read')",
    "it cannot signal the first process": "print('ok' if denied(lambda: os.kill(1, 9)) else 'signalled')",
    "it cannot become root": "print('ok' if denied(lambda: os.setuid(0)) else 'root')",
    "no host file system is mounted": "print('ok' if not os.path.exists('/home') or not os.listdir('/home') else 0)",
    "it has a scratch folder": "open('file', 'w').write('x'); print('ok' if open('file').read() == 'x' else 'no')",
}  # fmt: skip


def self_test(sandbox: Sandbox) -> Iterator[str]:
    """Runs the probes; yields one sentence for each that does not hold."""
    for what, source in PROBES.items():
        try:
            result = sandbox.run(Job({"mode": "script", "sources": [_DENIED + source]}))
        except BoxError as error:
            yield f"{what}: {error}"
            continue
        said = (result.stdout + result.stderr).decode("utf-8", "replace").strip()
        if said != "ok":
            yield f"not so: {what} ({said[-200:]})"
    for reason, source in (("cpu", "while True: pass"), ("output", "while True: print('x' * 65536)")):
        limits = Limits(cpu_seconds=0.5, output_bytes=1 << 20)
        result = sandbox.run(Job({"mode": "script", "sources": [source]}, limits=limits))
        if result.killed != reason:
            yield f"not so: a program over its {reason} limit is ended ({result.killed}, exit {result.exit})"
