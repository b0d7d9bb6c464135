"""What one fork does with a test file: run it against a stub of the program, which lives in another sandbox.

Each call of the stub goes over the channel to the program's own process, and what comes back are plain values. Nothing
here is written by the program, so what this process reports is the verdict of the test file. Live objects stay with
the program; their methods are forwarded, comparisons never: an object cannot say that it equals the expected value.
"""

import builtins
import importlib
import os
import sys
import traceback
import types
import unittest

from . import frames, program, values

_LONGEST_DETAIL = 2_000
_FORWARDED = ("__len__", "__getitem__", "__setitem__", "__delitem__", "__iter__", "__next__", "__str__", "__call__")


class ProgramGoneError(BaseException):
    """The program's process has ended: no test can go on. Not an Exception, so that tests do not swallow it."""


class LiveObjectError(Exception):
    """A test passes the program something that cannot leave this process, for instance a function."""


class ProgramError(Exception):
    """Raised in the tests where the program raised an exception that is no built-in `Exception`."""


class Stub:
    """The tests' end of the program."""

    def __init__(self, channel):
        self.channel = channel
        self.needs_live = None
        self.calls = 0

    def ask(self, request):
        """Sends one request; returns the reply, or ends the tests where the program is gone."""
        frames.write(self.channel, {**request, "live": True})
        reply = frames.read(self.channel)
        if reply is None or "gone" in reply:
            raise ProgramGoneError
        return reply

    def call(self, ref, name, args, kwargs):
        """Calls a function (`ref` None) or a method of a live object; raises what it raised."""
        self.calls += 1
        encoded = [self.encode(arg) for arg in args]
        request = {"op": "call", "ref": ref, "name": name, "args": encoded}
        reply = self.ask({**request, "kwargs": {key: self.encode(value) for key, value in kwargs.items()}})
        for index, changed in reply.get("changed", {}).items():
            update(args[int(index)], self.decode(changed))
        return self.value(reply)

    def value(self, reply):
        """The value of a reply; raises what the program raised."""
        if "raised" in reply:
            raised = reply["raised"]
            kind = getattr(builtins, raised["base"], RuntimeError)
            known = self.exceptions.get(raised["type"], kind)
            raise known(raised["message"]) if isinstance(known, type) else kind(raised["message"])
        return self.decode(reply["value"])

    exceptions: dict = {}  # noqa: RUF012 - the program's own exception classes by name, shared with the stub module

    def encode(self, value):
        """Encodes an argument; live objects go back as themselves."""
        def reference(found):
            if isinstance(found, Live):
                return ["r", found.__dict__["_number"], ""]
            self.needs_live = f"a test passes a {type(found).__name__} to the program"
            raise LiveObjectError(self.needs_live)

        return values.encode(value, reference)

    def decode(self, data):
        """Decodes a value; live objects become proxies."""
        return values.decode(data, lambda number, type_name: Live(self, number, type_name))

    def lookup(self, name):
        """What the test file gets for a top-level name of the program.

        Raises:
            AttributeError: The program has no such name.
        """
        found = self.ask({"op": "describe", "names": [name]})["names"][name]
        if found["kind"] == "missing":
            raise AttributeError(f"the program defines no {name!r}")
        if found["kind"] == "module":
            return importlib.import_module(found["name"])
        if found["kind"] == "exception":
            base = getattr(builtins, found["base"], Exception)
            return self.exceptions.setdefault(name, type(name, (base,), {}))
        if found["kind"] == "value":
            return self.decode(found["value"])

        def function(*args, **kwargs):
            return self.call(None, name, args, kwargs)

        function.__name__ = function.__qualname__ = name
        return function


class Live:
    """An object of the program. Attributes and methods are forwarded; comparisons and arithmetic are not."""

    def __init__(self, stub, number, type_name):
        self.__dict__.update(_stub=stub, _number=number, _type_name=type_name)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        reply = self._stub.ask({"op": "get", "ref": self._number, "name": name})
        if reply.get("callable"):  # most often a method: call it by name, keep nothing
            return lambda *args, **kwargs: self._stub.call(self._number, name, args, kwargs)
        return self._stub.value(reply)

    def __setattr__(self, name, value):
        stub = self._stub
        stub.value(stub.ask({"op": "set", "ref": self._number, "name": name, "value": stub.encode(value)}))

    def __repr__(self):
        return f"<{self._type_name} in the program>"


def _forward(name):
    def method(self, *args, **kwargs):
        return self._stub.call(self._number, name, args, kwargs)

    return method


for _name in _FORWARDED:
    setattr(Live, _name, _forward(_name))


def update(target, new):
    """Makes a mutable argument equal to what the program left in its copy."""
    if isinstance(target, list) and isinstance(new, list):
        target[:] = new
    elif isinstance(target, dict | set) and type(new) is type(target):
        target.clear()
        target.update(new)


def run(job, channel):
    """Runs the test file and reports; never returns.

    Args:
        job: `kind` (`script`, `pytest`), `source`, `preamble` (the prompt's own helpers, which are not the program's),
            `call` (for a script: the function that takes the candidate), `entry`, `module` (what the file imports).
        channel: Descriptor of the socket to the host.
    """
    stub = Stub(channel)
    try:
        program.reopen_standard_streams()
        sys.argv = ["tests.py"]
        sys.path.insert(0, os.getcwd())
        report = run_script(job, stub) if job["kind"] == "script" else run_file(job, stub)
    except ProgramGoneError:
        report = {"passed": 0, "failed": 1, "detail": "the program ended during the tests"}
    except BaseException as error:  # a test file may fail in any way
        report = {"passed": 0, "failed": 1, "detail": describe(error)}
    if stub.needs_live:
        report["needs_live"] = stub.needs_live
    report["calls"] = stub.calls
    frames.write(channel, {"report": report})
    program.finish(0)


def describe(error):
    """The last line of a traceback and where it happened in the test file."""
    lines = traceback.format_exception(error)
    return "".join(lines[-3:])[-_LONGEST_DETAIL:]


class Namespace(dict):
    """The globals of an assert script: what it does not define itself is looked up in the program."""

    def __init__(self, stub):
        super().__init__(__name__="tests", __builtins__=builtins)
        self.stub = stub

    def __missing__(self, name):
        if hasattr(builtins, name):
            raise KeyError(name)
        try:
            found = self.stub.lookup(name)
        except AttributeError:
            raise KeyError(name) from None
        self[name] = found
        return found


def run_script(job, stub):
    """An assert script: it passes if it runs to its end."""
    namespace = Namespace(stub)
    if job.get("preamble"):
        exec(compile(job["preamble"], "preamble", "exec", dont_inherit=True), namespace)
    if job.get("entry"):
        namespace.pop(job["entry"], None)
        namespace[job["entry"]] = namespace["candidate"] = stub.lookup(job["entry"])
    exec(compile(job["source"], "tests.py", "exec", dont_inherit=True), namespace)
    if job.get("call"):
        namespace[job["call"]](namespace["candidate"])
    return {"passed": 1 if stub.calls else 0, "failed": 0, "detail": "" if stub.calls else "the tests called nothing"}


def run_file(job, stub):
    """A pytest or unittest file: every test must run and pass; skipped and expected failures do not count."""
    module = types.ModuleType(job["module"])
    module.__getattr__ = stub.lookup
    sys.modules[job["module"]] = module
    with open("test_program.py", "w", encoding="utf-8", errors="surrogatepass") as file:
        file.write(job["source"])
    needs_pytest = "pytest" in compile(job["source"], "tests.py", "exec", dont_inherit=True).co_names
    return run_with_pytest() if needs_pytest else run_plain()


def run_plain():
    """Runs functions named test*, classes named Test* and unittest cases; needs no pytest."""
    module = importlib.import_module("test_program")
    suite = unittest.defaultTestLoader.loadTestsFromModule(module)
    for name, found in list(vars(module).items()):
        if callable(found) and name.startswith("test") and not isinstance(found, type):
            suite.addTest(unittest.FunctionTestCase(found))
        if isinstance(found, type) and name.startswith("Test") and not issubclass(found, unittest.TestCase):
            methods = [method for method in dir(found) if method.startswith("test")]
            suite.addTests(unittest.FunctionTestCase(getattr(found(), method)) for method in methods)
    result = unittest.TestResult()
    suite.run(result)
    bad = [*result.failures, *result.errors]
    not_run = len(result.skipped) + len(result.expectedFailures) + len(result.unexpectedSuccesses)
    details = [text for _, text in bad] or ["a test was skipped or expected to fail"] * bool(not_run)
    failed = len(bad) + not_run
    passed = result.testsRun - failed
    return {"passed": passed, "failed": failed, "detail": (details or [""])[0][-_LONGEST_DETAIL:]}


def run_with_pytest():
    """Runs the file under pytest, whose reports are counted one by one: an exit code says too little."""
    try:
        import pytest
    except ImportError:
        return {"passed": 0, "failed": 0, "detail": "", "needs_module": "pytest"}

    class Count:
        passed, failed, detail = 0, 0, ""

        def pytest_runtest_logreport(self, report):
            if report.when == "call" and report.passed and not hasattr(report, "wasxfail"):
                self.passed += 1
            elif not report.passed or hasattr(report, "wasxfail"):
                self.failed += 1
                self.detail = self.detail or str(report.longrepr)[-_LONGEST_DETAIL:]

        def pytest_collectreport(self, report):
            if not report.passed:
                self.failed += 1
                self.detail = self.detail or str(report.longrepr)[-_LONGEST_DETAIL:]

    count = Count()
    pytest.main(["-q", "-p", "no:cacheprovider", "--noconftest", "-c", os.devnull, "test_program.py"], [count])
    return {"passed": count.passed, "failed": count.failed, "detail": count.detail}
