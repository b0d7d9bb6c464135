"""Any OpenAI-compatible server, for evaluation: text in, text out, many requests at a time.

    Server.connected() -> draw(requests) -> Drawn, as they finish

Chat or completions: the chat endpoint takes a problem's messages and lets the server apply the model's own template, so
it is the default. The completions endpoint takes `Problem.plain`, for models without a chat template. Nothing is
guessed: a server that refuses the first request ends the evaluation with its own words.

| what a server does | what comes of it |
|---|---|
| refuses connections, also after the retries | PolicyError: the evaluation stops and can be resumed |
| refuses the first request (4xx) | PolicyError with the server's message |
| refuses a later request (4xx) | an error of that answer |
| 408, 409, 429, 5xx, a broken connection, a reply that is no completion | retried, then an error of that answer |
| no whole reply within the time limit | an error of that answer, not retried |
"""

import asyncio
import contextlib
import queue
import random
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import httpx2

from rloo_verify.errors import ConfigError, PolicyError
from rloo_verify.policy.base import Request, Sampling
from rloo_verify.policy.drawn import Drawn
from rloo_verify.policy.openai_reply import RefusedError, TransientError, read_reply, server_message
from rloo_verify.types import Problem

CONNECT_SECONDS = 10.0
LONGEST_WAIT_SECONDS = 60.0
_READS_MODEL_DEFAULTS = {"vllm", "sglang"}
"""Servers that use the sampling defaults of the model's folder unless told otherwise; they say who they are."""

_LARGEST_SEED = 2**31 - 1  # some servers read seeds into 32 bits

Api = Literal["chat", "completions"]


@dataclass(frozen=True, slots=True)
class Server:
    """An OpenAI-compatible server and how to ask it.

    Attributes:
        base_url: As in OpenAI's clients, with the version: `http://localhost:8000/v1`. Without a path, `/v1` is added.
        model: The model's name on the server; empty: the only one that the server lists.
        api: `chat` or `completions`.
        concurrency: Requests at a time.
        timeout_seconds: Longest wait for one whole reply.
        retries: Further tries of a request that failed for a passing reason.
        backoff_seconds: Wait before the first retry; doubled for each further one, with jitter.
        api_key: Sent as a bearer token where given. Never written anywhere.
        template_kwargs: Variables of the chat template by task, sent as `chat_template_kwargs`.
        extra: Further fields of every request's body; null removes one. For instance
            `{"max_tokens": null, "max_completion_tokens": 2048}`.
        owner: Who the server says that it is; known after `connected`.
    """

    base_url: str
    model: str = ""
    api: Api = "chat"
    concurrency: int = 32
    timeout_seconds: float = 600.0
    retries: int = 4
    backoff_seconds: float = 0.5
    api_key: str | None = field(default=None, repr=False)
    template_kwargs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    owner: str = ""

    def connected(self) -> "Server":
        """This server, once it has answered, with the model's name and the owner filled in.

        Raises:
            PolicyError: if it cannot be reached or refuses the key.
            ConfigError: if the model is not there, or none is named and there is more than one.
        """
        try:
            with httpx2.Client(headers=self._headers(), timeout=CONNECT_SECONDS) as client:
                response = client.get(self._url("models"))
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise PolicyError(f"no server answers at {self.base_url}: {_words(error)}") from error
        if response.status_code in (401, 403):
            raise PolicyError(f"{self.base_url} refuses the API key: {server_message(response)}")
        try:
            models = {entry["id"]: entry for entry in response.json()["data"]}
        except (ValueError, KeyError, TypeError):
            models = {}  # not every server lists its models
        if not self.model and len(models) != 1:
            raise ConfigError(f"--model is needed: {self.base_url} offers {', '.join(sorted(models)) or 'no list'}")
        model = self.model or next(iter(models))
        if models and model not in models:
            raise ConfigError(f"{self.base_url} has no model {model!r}; it offers {', '.join(sorted(models))}")
        return replace(self, model=model, owner=str(models.get(model, {}).get("owned_by", "")))

    def draw(self, requests: Sequence[Request], sampling: Sampling) -> Generator[Drawn, None, None]:
        """Asks for one completion a request and yields each as soon as it is there, in any order.

        The requests are sent from a thread of their own, so that it works inside a notebook's event loop, too. Closing
        the iterator early ends it.

        Raises:
            PolicyError: if the server refuses the first request, or can no longer be reached.
        """
        results: queue.SimpleQueue[Drawn | BaseException | None] = queue.SimpleQueue()
        cancels: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()

        async def drawing() -> None:
            task, loop = asyncio.current_task(), asyncio.get_running_loop()
            assert task is not None
            cancels.put(lambda: loop.call_soon_threadsafe(task.cancel))
            await self._draw_all(list(requests), sampling, results.put)

        def work() -> None:
            try:
                asyncio.run(drawing())
            except BaseException as error:  # noqa: BLE001 (raised again where the results are read)
                results.put(error)
            else:
                results.put(None)

        thread = threading.Thread(target=work, name="openai", daemon=True)
        thread.start()
        try:
            while (result := results.get()) is not None:
                if isinstance(result, BaseException):
                    raise result
                yield result
        finally:
            if thread.is_alive():
                with contextlib.suppress(RuntimeError):  # the loop may end at this moment
                    cancels.get()()
                thread.join(CONNECT_SECONDS)

    def prompt(self, problem: Problem) -> str:
        """The prompt as it is sent; what the server's chat template makes of it is not known here."""
        if self.api == "completions":
            return problem.plain
        return "\n\n".join(message["content"] for message in problem.messages)

    async def _draw_all(self, requests: list[Request], sampling: Sampling, put: Callable[[Drawn], None]) -> None:
        limits = httpx2.Limits(max_connections=self.concurrency, max_keepalive_connections=self.concurrency)
        timeout = httpx2.Timeout(None, connect=CONNECT_SECONDS)  # the whole request has a limit of its own
        async with httpx2.AsyncClient(headers=self._headers(), limits=limits, timeout=timeout) as client:
            if requests:
                put(await self._answer(client, requests[0], sampling, first=True))
            waiting = iter(requests[1:])

            async def worker() -> None:
                for request in waiting:
                    put(await self._answer(client, request, sampling))

            await asyncio.gather(*(worker() for _ in range(min(self.concurrency, len(requests) - 1))))

    async def _answer(
        self, client: httpx2.AsyncClient, request: Request, sampling: Sampling, *, first: bool = False
    ) -> Drawn:
        """One answer, however it ends."""
        request = replace(request, seed=request.seed & _LARGEST_SEED)
        url, body = (
            self._url("chat/completions" if self.api == "chat" else "completions"),
            self._body(request, sampling),
        )
        for attempt in range(self.retries + 1):
            try:
                async with asyncio.timeout(self.timeout_seconds):
                    return read_reply(await client.post(url, json=body), request)
            except TimeoutError:
                return Drawn(request, error=f"no whole reply within {self.timeout_seconds:g} s")
            except RefusedError as error:
                if first:
                    raise PolicyError(f"{self.base_url} refuses the first request: {error}") from error
                return Drawn(request, error=str(error))
            except (TransientError, httpx2.TransportError) as error:
                if attempt < self.retries:
                    await asyncio.sleep(self._pause(attempt, error))
                elif isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout):
                    raise PolicyError(f"{self.base_url} can no longer be reached: {_words(error)}") from error
                else:
                    return Drawn(request, error=_words(error))
        raise AssertionError("the last try returns or raises")

    def _body(self, request: Request, sampling: Sampling) -> dict[str, Any]:
        problem = request.problem
        body: dict[str, Any] = {
            "model": self.model,
            "max_tokens": sampling.max_new_tokens,
            "temperature": sampling.temperature,
            "top_p": 1.0,
            "seed": request.seed,
        }
        if self.owner in _READS_MODEL_DEFAULTS:
            body |= {"top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0}
        if self.api == "completions":
            body["prompt"] = problem.plain
        else:
            body["messages"] = [dict(message) for message in problem.messages]
            if self.template_kwargs.get(problem.task):
                body["chat_template_kwargs"] = dict(self.template_kwargs[problem.task])
        return {key: value for key, value in {**body, **self.extra}.items() if value is not None}

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}

    def _url(self, path: str) -> str:
        base = self.base_url.rstrip("/")
        return f"{base}/{path}" if base.count("/") > 2 else f"{base}/v1/{path}"

    def _pause(self, attempt: int, error: Exception) -> float:
        wait = error.wait if isinstance(error, TransientError) else None
        if wait is None:
            wait = self.backoff_seconds * 2**attempt * random.uniform(0.5, 1.5)
        return min(wait, LONGEST_WAIT_SECONDS)


def _words(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
