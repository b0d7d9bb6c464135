"""The first process of a sandbox: reads requests from descriptor 0 and has a clone of the zygote run each.

One request at a time; those that come meanwhile wait here. A request carries one program and the input of one test;
expected outputs never come here. Each run has a user id of its own, which is never used again. Replies go to descriptor
1: `data` while a session runs, then one `done`.
"""

import os
import signal
from collections import deque
from typing import Any

from . import frames, seccomp
from .forks import Zygote
from .run import Run


def main(settings: dict[str, Any], boot: tuple[list[str], bytes]) -> None:
    """Serves requests until descriptor 0 closes.

    Args:
        settings: `preimport`, `seccomp`, `uid_base` (0: no users of their own), `isolated` (whether this process is
            the first of a process namespace of its own), `scratch`, `work` (the folder of each run in turn),
            `writable`.
        boot: The command line that starts the zygote, and what it reads first.
    """
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    for folder in settings["writable"]:
        os.chmod(folder, 0o1777)  # whatever the image and the engine made of it
    shares_user = settings["isolated"] and not settings["uid_base"]
    if shares_user:
        seccomp.Filter().set_dumpable(False)  # /proc must not open this process to the tests
    zygote = Zygote(*boot, settings["scratch"], ahead=not shares_user)
    frames.write(1, zygote.hello)
    if "error" in zygote.hello:
        return
    children, notice = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(notice, warn_on_full_buffer=False)
    runs = 0
    waiting: deque[dict[str, Any]] = deque()
    while (request := waiting.popleft() if waiting else frames.read(0)) is not None:
        if "job" not in request:  # a word to a run that has ended meanwhile
            continue
        runs += 1
        uid = settings["uid_base"] and settings["uid_base"] + runs
        frames.write(1, Run(request, settings, zygote, uid, children, waiting).result())
