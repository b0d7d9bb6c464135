"""What one fork does with an untrusted program: run it as a script, or load it and answer calls.

Everything here shares an interpreter with the program and decides nothing.
"""

import _thread
import ast
import atexit
import io
import os
import sys
import threading
import traceback
import types
from typing import Any, NoReturn

from . import frames
from .server import Server

STAGE_COMPILE, STAGE_LOADED = "compile_error", "loaded"
_LONGEST_MESSAGE = 2_000
_TRIMS = 12


def run(job: dict[str, Any], work: str, channel: int) -> NoReturn:
    """Does what the job says; never returns.

    Args:
        job: `mode` (`script` or `serve`), `sources` (alternatives: the first that compiles is the program), `preamble`
            (run before it in the same namespace), `requires` (a source that lacks this top-level name is passed over
            where another has it), `trim` (prose after the code is cut off).
        work: The current folder.
        channel: Descriptor of the socket on which stages are reported and calls are answered.
    """
    code = 1
    try:
        module = types.ModuleType("__main__" if job["mode"] == "script" else "solution")
        module.__file__ = f"{work}/solution.py"
        sys.argv = [module.__file__]
        sys.modules[module.__name__] = module
        sys.path.insert(0, work)
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


def choose_source(job: dict[str, Any], path: str, channel: int) -> types.CodeType | None:
    """Compiles the alternatives in turn; reports a compile error where none is a program."""
    first_error: Exception | None = None
    chosen: tuple[str, types.CodeType] | None = None
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
    file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    frames.write_all(file, chosen[0].encode("utf-8", "surrogatepass"))
    os.close(file)
    return chosen[1]


def compile_source(source: str, path: str, trim: bool) -> tuple[tuple[str, types.CodeType] | None, Exception | None]:
    """`(source, code)` or None, and the first error. With `trim`, text after the last line of code is cut off."""
    first_error: Exception | None = None
    source = source.removeprefix("\ufeff")
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


def defines_name(source: str, name: str) -> bool:
    """Whether a program defines a top-level name, or a `class Solution` that may have it as a method."""
    for node in ast.parse(source).body:
        if getattr(node, "name", None) in (name, "Solution"):
            return True
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            return True
        aliases = node.names if isinstance(node, ast.Import | ast.ImportFrom) else ()
        if any((alias.asname or alias.name) == name for alias in aliases):
            return True
    return False


def reopen_standard_streams() -> None:
    """Fresh text streams over the descriptors 0 to 2, which are replaced after the interpreter started."""
    sys.stdin = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)
    sys.stdout = open(1, "w", encoding="utf-8", errors="surrogateescape", closefd=False)
    raw = io.BufferedWriter(io.FileIO(2, "w", closefd=False))
    sys.stderr = io.TextIOWrapper(raw, "utf-8", "backslashreplace", line_buffering=True)
    for name in ("stdin", "stdout", "stderr"):
        setattr(sys, f"__{name}__", getattr(sys, name))


def exit_code(leaving: SystemExit) -> int:
    """The status of `sys.exit(...)`."""
    if leaving.code is None or isinstance(leaving.code, int):
        return (leaving.code or 0) & 0xFF
    print(leaving.code, file=sys.stderr)
    return 1


def print_exception() -> None:
    """The traceback of the current exception, as far as it can be printed."""
    try:
        traceback.print_exc()
    except BaseException:
        os.write(2, b"an exception that cannot be printed\n")


def finish(code: int) -> NoReturn:
    """Ends the process as an interpreter would: threads, exit functions, flush."""
    try:
        if _thread._count():
            threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
    except BaseException:
        print_exception()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BaseException:
            code = code or 120
    os._exit(code)


def serve(module: types.ModuleType, channel: int) -> NoReturn:
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
