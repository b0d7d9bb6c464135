"""An OpenAI-compatible server on the loopback interface that misbehaves on request."""

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Reply = tuple[int, dict[str, str], bytes]
"""Status, headers, body."""


def completion(text: str, *, tokens: int = 3, reason: str = "stop", chat: bool = True) -> Reply:
    """A well-formed reply."""
    choice = {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
    body = {"choices": [{"index": 0, "finish_reason": reason, **choice}], "usage": {"completion_tokens": tokens}}
    return 200, {"Content-Type": "application/json"}, json.dumps(body).encode()


def refusal(status: int, message: str, **headers: str) -> Reply:
    """An error in OpenAI's form."""
    return status, headers, json.dumps({"error": {"message": message, "code": status}}).encode()


class FakeServer:
    """Answers with what `answer` gives for `(number of the request, its body)`; remembers every body.

    Attributes:
        bodies: What was asked, in the order of arrival.
        keys: The Authorization headers.
        at_once: The largest number of requests that were open at a time.
    """

    def __init__(self, answer: Callable[[int, dict[str, Any]], Reply], models: list[dict[str, Any]] | None) -> None:
        self.answer, self.models = answer, models
        self.bodies: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.keys: set[str | None] = set()
        self.at_once = self.open = 0
        self.lock = threading.Lock()
        self.base_url = ""

    def handle(self, path: str, key: str | None, body: dict[str, Any] | None) -> Reply:
        self.keys.add(key)
        if body is None:
            if self.models is None:
                return refusal(404, "no such page")
            return 200, {}, json.dumps({"data": self.models}).encode()
        with self.lock:
            number = len(self.bodies)
            self.bodies.append(body)
            self.paths.append(path)
            self.open += 1
            self.at_once = max(self.at_once, self.open)
        try:
            return self.answer(number, body)
        finally:
            with self.lock:
                self.open -= 1


@contextlib.contextmanager
def fake_server(
    answer: Callable[[int, dict[str, Any]], Reply], *, models: tuple[str, ...] | None = ("tiny",), owner: str = "tests"
) -> Iterator[FakeServer]:
    """Runs a server for the time of a test; `models=None`: it does not list its models."""
    server = FakeServer(answer, None if models is None else [{"id": name, "owned_by": owner} for name in models])

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._reply(None)

        def do_POST(self) -> None:
            self._reply(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def _reply(self, body: dict[str, Any] | None) -> None:
            status, headers, content = server.handle(self.path, self.headers.get("Authorization"), body)
            with contextlib.suppress(OSError):  # the client may have gone
                if status == 0:
                    self.close_connection = True
                    self.connection.shutdown(socket.SHUT_RDWR)
                    return
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(content))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    server.base_url = f"http://127.0.0.1:{http.server_port}/v1"
    thread = threading.Thread(target=http.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()
        thread.join(10)


def hang(seconds: float = 30.0) -> Reply:
    """Says nothing for longer than any test waits."""
    time.sleep(seconds)
    return completion("too late")


def free_port() -> int:
    """A port at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])
