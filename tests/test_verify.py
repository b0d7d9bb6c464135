"""The verifier under checkers that lie, hang, crash and raise."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rloo_verify.errors import VerifyError
from rloo_verify.types import Outcome, Problem, Verdict
from rloo_verify.verify import Verifier

CHECK = """
import os, sys, time, threading
from rloo_verify.checkers import UnusableReferenceError
from rloo_verify.types import Outcome, Verdict

class Odd(Exception):
    def __str__(self):
        raise ValueError("no message")

def check(completion, answer, row, **options):
    print("a checker may print", flush=True)
    if completion == "hang":
        while True: pass
    if completion == "sleep": time.sleep(60)
    if completion == "crash": os._exit(7)
    if completion == "segfault": os.kill(os.getpid(), 11)
    if completion == "raise": raise ValueError("bad luck \\ud800")
    if completion == "odd": raise Odd()
    if completion == "exit": sys.exit(3)
    if completion == "none": return None
    if completion == "memory": return len(bytearray(8 << 30)) > 0
    if completion == "slow": time.sleep(0.05)
    if completion == "pid": return Verdict(Outcome.FAIL, "pid", str(os.getpid()))
    if completion == "child":
        import subprocess
        return Verdict(Outcome.FAIL, "pid", str(subprocess.Popen(["sleep", "300"]).pid))
    if completion == "modules":
        heavy = {"torch", "transformers", "vllm", "datasets"} & set(sys.modules)
        return Verdict(Outcome.FAIL, "modules", " ".join(sorted(heavy)))
    if completion == "options": return Verdict(Outcome.FAIL, "options", repr((options, dict(row))))
    if completion == "threads": return Verdict(Outcome.FAIL, "threads", os.environ["OMP_NUM_THREADS"])
    return completion == answer

def told(completion, answer, row):
    return check(completion, answer, row)

def prepare(answer):
    if answer == "hang":
        while True: pass
    if answer == "bad": raise UnusableReferenceError("no number in it")

told.prepare = prepare
"""

TOML = """
summary = "A task whose checker misbehaves on demand."
source = "written for this test"
license = "Apache-2.0"
version = 1
[data]
sample = "rows.jsonl"
[data.columns]
question = "question"
answer = "answer"
[prompt]
user = "{question}"
[check]
checker = "check.py:%s"
"""


def make_task(folder: Path, function: str = "check", extra: str = "") -> Path:
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "rows.jsonl").write_text(json.dumps({"question": "?", "answer": "right"}) + "\n")
    (folder / "check.py").write_text(CHECK)
    (folder / "task.toml").write_text(TOML % function + extra)
    return folder


def problem(task: str = "plain", answer: object = "right", row: dict[str, object] | None = None) -> Problem:
    return Problem(f"{task}/test/0", task, (), "?", answer, row or {})


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("tasks")
    return {
        "plain": make_task(root / "plain", extra="[check.options]\ncolour = 'red'\n"),
        "told": make_task(root / "told", "told"),
        "quick": make_task(root / "quick", extra="timeout_seconds = 0.2\n"),
        "missing": make_task(root / "missing", "nothing_of_this_name"),
    }


@pytest.fixture(scope="module")
def verifier(folders: dict[str, Path]) -> Iterator[Verifier]:
    with Verifier(folders, workers=2, timeout_seconds=0.4, memory_mib=1024) as verifier:
        yield verifier


def verdict(verifier: Verifier, text: str, **where: object) -> Verdict:
    return verifier.submit(problem(**where), text).result(timeout=60)  # type: ignore[arg-type]


def gone(pid: int) -> bool:
    """Whether a process has ended; a zombie that its own parent will reap counts."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def eventually(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return condition()


def test_true_becomes_pass_and_false_becomes_fail(verifier: Verifier) -> None:
    assert verdict(verifier, "right").outcome is Outcome.PASS
    assert verdict(verifier, "wrong").outcome is Outcome.FAIL
    assert verdict(verifier, "right").seconds > 0


def test_the_options_of_the_task_and_the_row_reach_the_checker(verifier: Verifier) -> None:
    assert verdict(verifier, "options", row={"a": [1]}).detail == "({'colour': 'red'}, {'a': [1]})"


@pytest.mark.parametrize(
    ("text", "reason", "said"),
    [
        ("raise", "checker_error", "ValueError: bad luck \ud800"),
        ("odd", "checker_error", "Odd: "),
        ("exit", "checker_error", "SystemExit: 3"),
        ("none", "checker_error", "NoneType"),
        ("crash", "checker_crashed", "exit code 7"),
        ("segfault", "checker_crashed", "SIGSEGV"),
        ("hang", "checker_timeout", "0.4 s of CPU time"),
        ("memory", "checker_memory", "memory"),
    ],
)
def test_what_goes_wrong_inside_a_check_is_an_error_and_never_a_reward(
    verifier: Verifier, text: str, reason: str, said: str
) -> None:
    found = verdict(verifier, text)
    assert (found.outcome, found.reason, found.reward) == (Outcome.ERROR, reason, None)
    assert said in found.detail
    assert verdict(verifier, "right").outcome is Outcome.PASS


def test_a_checker_that_waits_meets_the_wall_clock_limit_and_the_tasks_own_timeout_counts(verifier: Verifier) -> None:
    # quick: 0.2 s of CPU time, so 4 * 0.2 + 2 = 2.8 s of waiting; with the pool's 0.4 s it would be 3.6 s.
    found = verdict(verifier, "sleep", task="quick")
    assert (found.outcome, found.reason) == (Outcome.ERROR, "checker_timeout")
    assert 2.7 < found.seconds < 3.5


def test_a_limit_reached_after_the_reference_was_read_is_the_answers_fault(verifier: Verifier) -> None:
    assert (slow := verdict(verifier, "hang", task="told")).outcome is Outcome.FAIL
    assert slow.reason == "too_slow"
    assert (large := verdict(verifier, "memory", task="told")).outcome is Outcome.FAIL
    assert large.reason == "too_large"


def test_a_reference_that_hangs_or_cannot_be_read_is_an_error(verifier: Verifier) -> None:
    assert (hung := verdict(verifier, "right", task="told", answer="hang")).outcome is Outcome.ERROR
    assert hung.reason == "checker_timeout"
    assert (bad := verdict(verifier, "right", task="told", answer="bad")).outcome is Outcome.ERROR
    assert (bad.reason, bad.detail) == ("unusable_reference", "no number in it")


def test_a_task_that_cannot_be_loaded_spoils_only_its_own_answers(verifier: Verifier) -> None:
    found = verdict(verifier, "right", task="missing")
    assert (found.outcome, found.reason) == (Outcome.ERROR, "checker_error")
    assert "nothing_of_this_name" in found.detail


def test_an_answer_that_hangs_does_not_delay_the_next_one(verifier: Verifier) -> None:
    assert eventually(lambda: len(verifier.worker_pids) == 2)
    hanging = verifier.submit(problem(), "sleep")
    started = time.monotonic()
    assert verdict(verifier, "right").outcome is Outcome.PASS
    assert time.monotonic() - started < 1.0
    assert not hanging.done()
    assert hanging.result(timeout=30).outcome is Outcome.ERROR


def test_lone_surrogates_null_bytes_and_a_megabyte_of_text_arrive_whole(verifier: Verifier) -> None:
    for text in ("\ud800 and \udfff", "a\0b", "é" * 1_000_000):
        assert verdict(verifier, text, answer=text).outcome is Outcome.PASS


def test_a_reference_that_cannot_be_sent_is_an_error(verifier: Verifier) -> None:
    found = verdict(verifier, "right", answer=object())
    assert (found.outcome, found.reason) == (Outcome.ERROR, "checker_error")
    assert "object" in found.detail


def test_workers_load_neither_torch_nor_transformers_and_use_one_thread(verifier: Verifier) -> None:
    assert verdict(verifier, "modules").detail == ""
    assert verdict(verifier, "threads").detail == "1"


def test_eight_threads_get_their_own_verdicts(verifier: Verifier) -> None:
    wrong: list[str] = []

    def ask(name: str) -> None:
        for i in range(25):
            expected = Outcome.PASS if i % 2 else Outcome.FAIL
            if verdict(verifier, f"{name}{i}", answer=f"{name}{i}" if i % 2 else "else").outcome is not expected:
                wrong.append(f"{name}{i}")

    threads = [threading.Thread(target=ask, args=(str(n),)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_worker_killed_while_idle_costs_no_answer(verifier: Verifier) -> None:
    assert eventually(lambda: len(verifier.worker_pids) == 2)
    pids = verifier.worker_pids
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    assert eventually(lambda: all(gone(pid) for pid in pids))
    assert [verdict(verifier, "right").outcome for _ in range(4)] == [Outcome.PASS] * 4


def test_many_kills_leak_neither_processes_nor_file_descriptors(folders: dict[str, Path]) -> None:
    with Verifier({"quick": folders["quick"]}, workers=2, timeout_seconds=1) as verifier:
        for future in [verifier.submit(problem("quick"), "right") for _ in range(4)]:
            future.result(timeout=60)
        before = len(os.listdir("/proc/self/fd"))
        pids = set(verifier.worker_pids)
        for future in [verifier.submit(problem("quick"), text) for text in ["crash", "hang"] * 6]:
            assert future.result(timeout=60).outcome is Outcome.ERROR
            pids |= set(verifier.worker_pids)
        for future in [verifier.submit(problem("quick"), "right") for _ in range(200)]:
            assert future.result(timeout=60).outcome is Outcome.PASS
        assert eventually(lambda: len(verifier.worker_pids) == 2)
        assert eventually(lambda: len(os.listdir("/proc/self/fd")) <= before)
        pids |= set(verifier.worker_pids)
    assert eventually(lambda: all(gone(pid) for pid in pids), 5)


def test_closing_cancels_what_is_queued_and_ends_a_hanging_worker_within_seconds(folders: dict[str, Path]) -> None:
    verifier = Verifier(folders, workers=1, timeout_seconds=100)
    assert verdict(verifier, "right").outcome is Outcome.PASS
    (pid,) = verifier.worker_pids
    running = verifier.submit(problem(), "sleep")
    queued = [verifier.submit(problem(), "right") for _ in range(5)]
    assert eventually(running.running)
    started = time.monotonic()
    verifier.close()
    verifier.close()
    assert time.monotonic() - started < 3.0
    assert all(future.cancelled() for future in queued)
    assert gone(pid)
    with pytest.raises(VerifyError, match="closed"):
        running.result(timeout=1)
    with pytest.raises(VerifyError, match="closed"):
        verifier.submit(problem(), "right")


def test_what_a_checker_started_ends_with_its_worker(folders: dict[str, Path]) -> None:
    with Verifier(folders, workers=1, timeout_seconds=5) as verifier:
        child = int(verdict(verifier, "child").detail)
        assert not gone(child)
        verdict(verifier, "crash")
        assert eventually(lambda: gone(child))


def test_a_task_without_a_folder_is_refused_at_once(verifier: Verifier) -> None:
    with pytest.raises(VerifyError, match="no checker was given for the task 'other'; known tasks: missing, plain"):
        verifier.submit(problem("other"), "right")


def test_workers_that_cannot_start_end_verification_with_a_sentence(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with Verifier(folders, workers=2, timeout_seconds=1) as verifier:
        with pytest.raises(VerifyError, match=r"cannot be started, 3 times in a row: .*exit code 1"):
            verifier.submit(problem(), "right").result(timeout=30)
        with pytest.raises(VerifyError, match="cannot be started"):
            verifier.submit(problem(), "right")


@pytest.mark.parametrize("doing", ["sleep", "right", "hang"])
def test_no_worker_outlives_a_trainer_that_is_killed(folders: dict[str, Path], doing: str) -> None:
    program = textwrap.dedent(f"""
        import sys, time
        from pathlib import Path
        from rloo_verify.types import Problem
        from rloo_verify.verify import Verifier
        verifier = Verifier({{"plain": Path({str(folders["plain"])!r})}}, workers=2, timeout_seconds=3)
        problem = Problem("plain/0", "plain", (), "?", "right")
        for future in [verifier.submit(problem, "slow") for _ in range(10)]: future.result()
        for _ in range(2): verifier.submit(problem, {doing!r})
        time.sleep(0.3)
        print(*verifier.worker_pids, flush=True)
        time.sleep(60)
    """)
    trainer = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert trainer.stdout is not None
    pids = [int(pid) for pid in trainer.stdout.readline().split()]
    assert pids
    trainer.kill()
    trainer.wait()
    trainer.stdout.close()
    assert eventually(lambda: all(gone(pid) for pid in pids), 8)


def test_a_verifier_works_without_an_importable_main_as_in_a_notebook(folders: dict[str, Path]) -> None:
    program = textwrap.dedent(f"""
        from pathlib import Path
        from rloo_verify.types import Problem
        from rloo_verify.verify import Verifier
        with Verifier({{"plain": Path({str(folders["plain"])!r})}}, workers=1, timeout_seconds=3) as verifier:
            print(verifier.submit(Problem("plain/0", "plain", (), "?", "right"), "right").result().outcome)
    """)
    done = subprocess.run([sys.executable, "-"], input=program, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "pass\n"
    assert done.stderr == ""
