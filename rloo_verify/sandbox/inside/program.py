"""What one fork does with an untrusted program: run it as a script, or load it and answer calls.

Everything here shares an interpreter with the program and decides nothing.
"""

import ast
import atexit
import builtins
import inspect
import io
import os
import sys
import threading
import traceback
import types

from . import frames, values

STAGE_COMPILE, STAGE_LOADED = "compile_error", "loaded"
_LONGEST_MESSAGE = 2_000
_TRIMS = 12


def run(job, channel):
    """Does what the job says; never returns.

    Args:
        job: `mode` (`script` or `serve`), `sources` (alternatives: the first that compiles is the program), `preamble`
            (run before it in the same namespace), `requires` (a source that lacks this top-level name is passed over
            where another has it), `trim` (prose after the code is cut off).
        channel: Descriptor of the socket on which stages are reported and calls are answered.
    """
    code = 1
    try:
        reopen_standard_streams()
        module = types.ModuleType("__main__" if job["mode"] == "script" else "solution")
        module.__file__ = os.path.abspath("solution.py")
        sys.argv = [module.__file__]
        sys.modules[module.__name__] = module
        sys.path.insert(0, os.getcwd())
        program = choose_source(job, module.__file__, channel)
        if program is not None:
            if job.get("preamble"):
                exec(compile(job["preamble"], "preamble", "exec", dont_inherit=True), module.__dict__)
            exec(program, module.__dict__)
            if job["mode"] == "serve":
                frames.write(channel, {"stage": STAGE_LOADED})
                serve(module, channel)
            code = 0
    except SystemExit as leaving:
        code = exit_code(leaving)
    except BaseException:  # whatever the program raises is printed as Python would
        print_exception()
    finish(code)


def choose_source(job, path, channel):
    """Compiles the alternatives in turn; reports a compile error where none is a program."""
    first_error, chosen = None, None
    for source in job["sources"]:
        compiled, error = compile_source(source, path, job.get("trim", False))
        first_error = first_error or error
        if compiled is None:
            continue
        defines = not job.get("requires") or defines_name(compiled[0], job["requires"])
        chosen = compiled if defines else chosen or compiled
        if defines:
            break
    if chosen is None:
        message = f"{type(first_error).__name__}: {first_error}"[:_LONGEST_MESSAGE]
        frames.write(channel, {"stage": STAGE_COMPILE, "message": message})
        return None
    with open(path, "w", encoding="utf-8", errors="surrogatepass") as file:
        file.write(chosen[0])
    return chosen[1]


def compile_source(source, path, trim):
    """`(source, code)` or None, and the first error. With `trim`, text after the last line of code is cut off."""
    first_error = None
    for _ in range(_TRIMS if trim else 1):
        try:
            return (source, compile(source, path, "exec", dont_inherit=True)), first_error
        except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError) as error:
            first_error = first_error or error
            line = getattr(error, "lineno", None) or 0
            source = "".join(source.splitlines(keepends=True)[: line - 1])
            if not source.strip():
                break
    return None, first_error


def defines_name(source, name):
    """Whether a program defines a top-level name, or a `class Solution` that may have it as a method."""
    for node in ast.parse(source).body:
        if getattr(node, "name", None) in (name, "Solution"):
            return True
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            return True
        if isinstance(node, ast.Import | ast.ImportFrom):
            if any((alias.asname or alias.name) == name for alias in node.names):
                return True
    return False


def reopen_standard_streams():
    """Fresh text streams over the descriptors 0 to 2, which were replaced after the interpreter started."""
    sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)
    sys.stdout = sys.__stdout__ = open(1, "w", encoding="utf-8", errors="surrogateescape", closefd=False)
    raw = io.BufferedWriter(io.FileIO(2, "w", closefd=False))
    sys.stderr = sys.__stderr__ = io.TextIOWrapper(raw, "utf-8", "backslashreplace", line_buffering=True)


def exit_code(leaving):
    """The status of `sys.exit(...)`."""
    if leaving.code is None or isinstance(leaving.code, int):
        return (leaving.code or 0) & 0xFF
    print(leaving.code, file=sys.stderr)
    return 1


def print_exception():
    """The traceback of the current exception, as far as it can be printed."""
    try:
        traceback.print_exc()
    except BaseException:
        os.write(2, b"an exception that cannot be printed\n")


def finish(code):
    """Ends the process as an interpreter would: threads, exit functions, flush."""
    try:
        threading._shutdown()
        atexit._run_exitfuncs()
    except BaseException:
        print_exception()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BaseException:
            code = code or 120
    os._exit(code)


def serve(module, channel):
    """Answers calls until the channel closes, then ends the process at once."""
    server = Server(module)
    while True:
        request = frames.read(channel)
        if request is None:
            break
        frames.write(channel, server.answer(request))
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BaseException:
            break
    os._exit(0)


class Server:
    """Calls into a loaded program. Objects that cannot leave are kept and named by number, if the session allows."""

    def __init__(self, module):
        self.module = module
        self.live = []

    def answer(self, request):
        """The reply to one request: `value`, `raised` or, for `describe`, `names`."""
        reference = self.keep if request.get("live") else None
        try:
            if request["op"] == "describe":
                return {"names": {name: self.describe(name) for name in request["names"]}}
            if request["op"] == "get":
                found = getattr(self.live[request["ref"]], request["name"])
                return {"callable": True} if callable(found) else {"value": values.encode(found, reference)}
            if request["op"] == "set":
                setattr(self.live[request["ref"]], request["name"], self.decode(request["value"]))
                return {"value": ["n"]}
            return self.call(request, reference)
        except BaseException as error:  # SystemExit and KeyboardInterrupt are the program's failures, too
            return {"raised": describe_exception(error)}

    def call(self, request, reference):
        """Calls a function or a method, and tells which mutable arguments it changed."""
        before = request["args"]
        args = [self.decode(arg) for arg in before]
        kwargs = {name: self.decode(arg) for name, arg in request.get("kwargs", {}).items()}
        if request.get("ref") is None:
            function = self.find(request["name"])
        else:
            function = getattr(self.live[request["ref"]], request["name"])
        reply = {"value": values.encode(function(*args, **kwargs), reference)}
        if request.get("live"):
            after = [values.encode(arg, reference) for arg in args]
            changed = {str(i): new for i, (old, new) in enumerate(zip(before, after)) if old != new}
            if changed:
                reply["changed"] = changed
        return reply

    def find(self, name):
        """A top-level name, or a method of `class Solution`."""
        found = vars(self.module).get(name)
        if found is None and "Solution" in vars(self.module):
            found = getattr(self.module.Solution(), name, None)
        if found is None:
            raise NameError(f"the program defines no {name!r}")
        return found

    def describe(self, name):
        """What a top-level name is: a function, a class, an exception, a module, a value, an object, or missing."""
        try:
            found = self.find(name)
        except NameError:
            return {"kind": "missing"}
        if inspect.ismodule(found):
            return {"kind": "module", "name": found.__name__}
        if inspect.isclass(found) and issubclass(found, BaseException):
            return {"kind": "exception", "base": builtin_exception(found)}
        if callable(found):
            return {"kind": "function"}
        return {"kind": "value", "value": values.encode(found, self.keep)}

    def keep(self, value):
        """Keeps an object here; returns the encoding that names it."""
        for number, known in enumerate(self.live):
            if known is value:
                return ["r", number, type(value).__name__]
        self.live.append(value)
        return ["r", len(self.live) - 1, type(value).__name__]

    def decode(self, data):
        """Decodes an argument; live objects become themselves again."""
        return values.decode(data, lambda number, _: self.live[number])


def describe_exception(error):
    """Type name, nearest built-in type, and message of an exception."""
    try:
        message = str(error)[:_LONGEST_MESSAGE]
    except BaseException:
        message = ""
    return {"type": type(error).__name__, "base": builtin_exception(type(error)), "message": message}


def builtin_exception(kind):
    """The nearest built-in ancestor; exceptions that are no `Exception` (SystemExit) count as RuntimeError."""
    for base in kind.__mro__:
        if getattr(builtins, base.__name__, None) is base and issubclass(base, Exception):
            return base.__name__
    return "RuntimeError"
