"""What OpenAI-compatible servers answer: completions, refusals, troubles that pass, and garbage."""

import httpx2

from rloo_verify.policy.base import Request
from rloo_verify.policy.drawn import Drawn

_RETRIED = frozenset({408, 409, 429})


class TransientError(Exception):
    """Worth another try, after `wait` seconds where the server named a time."""

    def __init__(self, message: str, wait: float | None = None) -> None:
        super().__init__(message)
        self.wait = wait


class RefusedError(Exception):
    """The server will not answer this request, however often it is asked."""


def read_reply(response: httpx2.Response, request: Request) -> Drawn:
    """The completion in a reply of either endpoint.

    Raises:
        RefusedError: for a status of 400 to 499 that will be the same next time.
        TransientError: for any other status, and for a reply that holds no completion.
    """
    status = response.status_code
    if status in _RETRIED or status >= 500:
        raise TransientError(f"status {status}: {server_message(response)}", _retry_after(response))
    if status >= 400:
        raise RefusedError(f"status {status}: {server_message(response)}")
    try:
        reply = response.json()
        choice = reply["choices"][0]
        # null where a reasoning model was cut before its answer
        text = (choice["message"]["content"] if "message" in choice else choice["text"]) or ""
        if not isinstance(text, str):
            raise TypeError(f"the text is {type(text).__name__}")
        tokens = (reply.get("usage") or {}).get("completion_tokens")
        reason = choice.get("finish_reason")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        shown = " ".join(response.text[:200].split())
        raise TransientError(f"a reply that is no completion: {shown!r}") from error
    return Drawn(
        request,
        text=text,
        tokens=tokens if isinstance(tokens, int) else None,
        finish_reason=reason if isinstance(reason, str) else None,
    )


def server_message(response: httpx2.Response) -> str:
    """What a server says of an error, on one line."""
    try:
        error = response.json()
        error = error.get("error", error)
        text = str(error.get("message", error) if isinstance(error, dict) else error)
    except (ValueError, AttributeError, RecursionError):
        text = response.text
    return " ".join(text.split())[:300] or response.reason_phrase


def _retry_after(response: httpx2.Response) -> float | None:
    try:
        return max(0.0, float(response.headers["retry-after"]))
    except (KeyError, ValueError):  # absent, or a date
        return None
