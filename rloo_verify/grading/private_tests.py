"""LiveCodeBench's private tests: base64 of zlib of a pickle of JSON text.

A pickle can name any function of any module and have it called. This reader knows no names: it takes text and plain
containers and refuses the rest.
"""

import base64
import binascii
import io
import pickle
import zlib
from typing import Any

_LARGEST = 256 << 20


class PrivateTestsError(Exception):
    """The data names a global, or is not what it should be."""


class _NoGlobals(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        raise PrivateTestsError(f"the private tests name {module}.{name}; only plain data is read")

    def persistent_load(self, pid: Any) -> Any:  # noqa: ARG002 - the signature of pickle
        raise PrivateTestsError("the private tests refer to objects outside; only plain data is read")


def decode_private(text: str) -> Any | None:
    """Decodes private tests.

    Returns:
        The data, usually JSON text; None where the text is not base64 of compressed data.

    Raises:
        PrivateTestsError: The pickle asks for more than plain data, or the data is too large.
    """
    try:
        unpacker = zlib.decompressobj()
        data = unpacker.decompress(base64.b64decode(text, validate=True), _LARGEST)
    except (binascii.Error, zlib.error, ValueError):
        return None
    if unpacker.unconsumed_tail:
        raise PrivateTestsError(f"the private tests are larger than {_LARGEST >> 20} MiB")
    if data[:1] in (b"[", b"{"):
        return data.decode("utf-8")
    try:
        return _NoGlobals(io.BytesIO(data)).load()
    except PrivateTestsError:
        raise
    except Exception as error:  # noqa: BLE001 - a malformed pickle may fail in any way
        raise PrivateTestsError(f"the private tests cannot be read: {type(error).__name__}: {error}") from None
