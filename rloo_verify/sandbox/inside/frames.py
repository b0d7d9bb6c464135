"""Length-prefixed JSON over a file descriptor: four bytes big-endian, then the JSON in ASCII."""

import json
import os
from typing import Any


def pack(message: Any) -> bytes:
    """A message as bytes."""
    body = json.dumps(message, separators=(",", ":")).encode("ascii")
    return len(body).to_bytes(4, "big") + body


def unpack_all(data: bytes | bytearray) -> list[bytes]:
    """The complete messages at the start of `data`, as bytes; a cut-off one at the end is left out."""
    bodies: list[bytes] = []
    at = 0
    while at + 4 <= len(data):
        end = at + 4 + int.from_bytes(data[at : at + 4], "big")
        if end > len(data):
            break
        bodies.append(bytes(data[at + 4 : end]))
        at = end
    return bodies


class Counter:
    """Counts the complete messages of a stream without keeping them."""

    def __init__(self) -> None:
        self.complete = 0
        self._head = bytearray()
        self._left = 0  # bytes to come of the body that has begun

    def feed(self, data: bytes) -> None:
        """Takes the next bytes of the stream."""
        at = 0
        while at < len(data):
            if self._left:
                part = min(self._left, len(data) - at)
                self._left -= part
            else:
                part = min(4 - len(self._head), len(data) - at)
                self._head += data[at : at + part]
                if len(self._head) < 4:
                    return
                self._left = int.from_bytes(self._head, "big")
                self._head.clear()
            at += part
            self.complete += not self._left


def read(fd: int) -> Any:
    """The next message, or None at the end of the stream."""
    head = read_exactly(fd, 4)
    if head is None:
        return None
    body = read_exactly(fd, int.from_bytes(head, "big"))
    return None if body is None else json.loads(body)


def read_exactly(fd: int, size: int) -> bytes | None:
    """`size` bytes, or None where the stream ends before."""
    parts: list[bytes] = []
    left = size
    while left:
        part = os.read(fd, min(left, 1 << 20))
        if not part:
            return None
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def write(fd: int, message: Any) -> None:
    """Writes a message whole.

    Raises:
        OSError: The other side is gone.
    """
    write_all(fd, pack(message))


def write_all(fd: int, data: bytes) -> None:
    """Writes all of `data`.

    Raises:
        OSError: The other side is gone, or there is no space.
    """
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
