"""Answers calls into a loaded program. Shares an interpreter with it and decides nothing."""

import builtins
import contextlib
import inspect
import io
import types
from typing import Any

from . import values

_LONGEST_MESSAGE = 2_000


class Server:
    """Calls into a loaded program. Objects that cannot leave are kept and named by number, if the session allows."""

    def __init__(self, module: types.ModuleType) -> None:
        self.module = module
        self.live: list[Any] = []

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """The reply to one request: `value`, `raised` or, for `describe`, `names`."""
        reference = self.keep if request.get("live") else None
        try:
            if request["op"] == "describe":
                names = [name for name in vars(self.module) if not name.startswith("_")]
                return {"names": {name: self.describe(name) for name in request["names"]}, "public": names}
            if request["op"] == "get":
                found = getattr(self.live[request["ref"]], request["name"])
                return {"callable": True} if callable(found) else {"value": values.encode(found, reference)}
            if request["op"] == "set":
                setattr(self.live[request["ref"]], request["name"], self.decode(request["value"]))
                return {"value": ["n"]}
            return self.call(request, reference)
        except BaseException as error:  # SystemExit and KeyboardInterrupt are the program's failures, too
            return {"raised": describe_exception(error)}

    def call(self, request: dict[str, Any], reference: values.ToReference | None) -> dict[str, Any]:
        """Calls a function or a method, and tells which mutable arguments it changed."""
        before = request["args"]
        args = [self.decode(arg) for arg in before]
        kwargs = {name: self.decode(arg) for name, arg in request.get("kwargs", {}).items()}
        if request.get("ref") is None:
            function = self.find(request["name"])
        else:
            function = getattr(self.live[request["ref"]], request["name"])
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed) if request.get("live") else contextlib.nullcontext():
            value = function(*args, **kwargs)
        reply: dict[str, Any] = {"value": values.encode(value, reference)}
        if request.get("live"):
            reply["printed"] = printed.getvalue()
            after = [values.encode(arg, reference) for arg in args]
            changed = {str(i): new for i, (old, new) in enumerate(zip(before, after, strict=True)) if old != new}
            if changed:
                reply["changed"] = changed
        return reply

    def find(self, name: str) -> Any:
        """A top-level name, or a method of `class Solution`."""
        found = vars(self.module).get(name)
        if found is None and "Solution" in vars(self.module):
            found = getattr(self.module.Solution(), name, None)
        if found is None:
            raise NameError(f"the program defines no {name!r}")
        return found

    def describe(self, name: str) -> dict[str, Any]:
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

    def keep(self, value: Any) -> values.Encoded:
        """Keeps an object here; returns the encoding that names it."""
        for number, known in enumerate(self.live):
            if known is value:
                return ["r", number, type(value).__name__]
        self.live.append(value)
        return ["r", len(self.live) - 1, type(value).__name__]

    def decode(self, data: Any) -> Any:
        """Decodes an argument; live objects become themselves again."""
        return values.decode(data, lambda number, _: self.live[number])


def describe_exception(error: BaseException) -> dict[str, Any]:
    """Type name, nearest built-in type, arguments and message of an exception."""
    try:
        message = str(error)[:_LONGEST_MESSAGE]
    except BaseException:
        message = ""
    kind = type(error)
    return {
        "type": kind.__name__,
        "base": builtin_exception(kind),
        "message": message,
        "args": values.encode(error.args),
    }


def builtin_exception(kind: type) -> str:
    """The nearest built-in ancestor. KeyboardInterrupt counts as RuntimeError: it would end a test run half-way."""
    for base in kind.__mro__:
        name: str = base.__name__
        if getattr(builtins, name, None) is base and issubclass(base, (Exception, SystemExit)):
            return name
    return "RuntimeError"
