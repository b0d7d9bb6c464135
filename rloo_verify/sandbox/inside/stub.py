"""The tests' end of a program that runs elsewhere: functions that forward calls, objects that forward methods.

Comparisons and arithmetic are never forwarded: an object cannot say that it equals the expected value.
"""

import builtins
import importlib
import sys
import types
from typing import Any

from . import frames, values

_FORWARDED = ("__len__", "__getitem__", "__setitem__", "__delitem__", "__iter__", "__next__", "__str__", "__call__")


class ProgramGoneError(BaseException):
    """The program's process has ended: no test can go on. Not an Exception, so that tests do not swallow it."""


class LiveObjectError(Exception):
    """A test passes the program something that cannot leave this process, for instance a function."""


class Stub:
    """The tests' end of the program."""

    def __init__(self, channel: int) -> None:
        self.channel = channel
        self.needs_live: str | None = None
        self.exceptions: dict[str, Any] = {}  # the program's own exception classes by name
        self.calls = 0

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Sends one request; returns the reply, or ends the tests where the program is gone."""
        frames.write(self.channel, {**request, "live": True})
        reply: dict[str, Any] | None = frames.read(self.channel)
        if reply is None or "gone" in reply:
            raise ProgramGoneError
        return reply

    def call(self, ref: int | None, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Calls a function (`ref` None) or a method of a live object; raises what it raised."""
        self.calls += 1
        encoded = [self.encode(arg) for arg in args]
        request = {"op": "call", "ref": ref, "name": name, "args": encoded}
        reply = self.ask({**request, "kwargs": {key: self.encode(value) for key, value in kwargs.items()}})
        sys.stdout.write(reply.get("printed", ""))
        for index, changed in reply.get("changed", {}).items():
            update(args[int(index)], self.decode(changed))
        return self.value(reply)

    def value(self, reply: dict[str, Any]) -> Any:
        """The value of a reply; raises what the program raised."""
        if "raised" in reply:
            raised = reply["raised"]
            kind = self.exceptions.get(raised["type"], getattr(builtins, raised["base"], RuntimeError))
            args = self.decode(raised["args"])
            error = kind.__new__(kind, *args)
            error.args = args
            raise error
        return self.decode(reply["value"])

    def encode(self, value: Any) -> values.Encoded:
        """Encodes an argument; live objects go back as themselves."""

        def reference(found: Any) -> values.Encoded:
            if isinstance(found, Live):
                return ["r", found.__dict__["_number"], ""]
            self.needs_live = f"a test passes a {type(found).__name__} to the program"
            raise LiveObjectError(self.needs_live)

        return values.encode(value, reference)

    def decode(self, data: Any) -> Any:
        """Decodes a value; live objects become proxies."""
        return values.decode(data, lambda number, type_name: Live(self, number, type_name))

    def lookup(self, name: str) -> Any:
        """What the test file gets for a top-level name of the program.

        Raises:
            AttributeError: The program has no such name.
        """
        reply = self.ask({"op": "describe", "names": [name]})
        if name == "__all__":  # `from solution import *`
            return reply["public"]
        found = reply["names"][name]
        if found["kind"] == "missing" or name.startswith("__"):
            raise AttributeError(f"the program defines no {name!r}")
        if found["kind"] == "module":
            return importlib.import_module(found["name"])
        if found["kind"] == "exception":
            base = getattr(builtins, found["base"], Exception)
            return self.exceptions.setdefault(name, type(name, (base,), {}))
        if found["kind"] == "value":
            return self.decode(found["value"])

        def function(*args: Any, **kwargs: Any) -> Any:
            return self.call(None, name, args, kwargs)

        function.__name__ = function.__qualname__ = name
        return function

    def as_module(self, name: str) -> types.ModuleType:
        """A module whose names are the program's."""
        module = types.ModuleType(name)
        vars(module)["__getattr__"] = self.lookup
        return module


class Live:
    """An object of the program. Attributes and methods are forwarded; comparisons and arithmetic are not."""

    def __init__(self, stub: Stub, number: int, type_name: str) -> None:
        self.__dict__.update(_stub=stub, _number=number, _type_name=type_name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        reply = self._stub.ask({"op": "get", "ref": self._number, "name": name})
        if reply.get("callable"):  # most often a method: call it by name, keep nothing
            return lambda *args, **kwargs: self._stub.call(self._number, name, args, kwargs)
        return self._stub.value(reply)

    def __setattr__(self, name: str, value: Any) -> None:
        stub = self._stub
        stub.value(stub.ask({"op": "set", "ref": self._number, "name": name, "value": stub.encode(value)}))

    def __repr__(self) -> str:
        return f"<{self._type_name} in the program>"


def _forward(name: str) -> Any:
    def method(self: Live, *args: Any, **kwargs: Any) -> Any:
        return self._stub.call(self._number, name, args, kwargs)

    return method


for _name in _FORWARDED:
    setattr(Live, _name, _forward(_name))


def update(target: Any, new: Any) -> None:
    """Makes a mutable argument equal to what the program left in its copy."""
    if isinstance(target, list) and isinstance(new, list):
        target[:] = new
    elif isinstance(target, dict | set) and type(new) is type(target):
        target.clear()
        target.update(new)
