"""The client of OpenAI-compatible servers: what it sends, what it makes of every kind of answer, and that it ends."""

import asyncio
import socket
import threading
import time
from dataclasses import replace
from typing import Any

import pytest
from fake_server import FakeServer, Reply, completion, fake_server, free_port, hang, refusal

from rloo_verify.errors import ConfigError, PolicyError
from rloo_verify.policy.base import Request, Sampling
from rloo_verify.policy.drawn import Drawn
from rloo_verify.policy.openai import Server
from rloo_verify.types import Problem

MESSAGES = ({"role": "system", "content": "Be brief."}, {"role": "user", "content": "2+2?"})
SAMPLING = Sampling(16, 0.7)


def requests(count: int) -> list[Request]:
    return [Request(Problem(f"t/{i}", "t", MESSAGES, "2+2=", "4"), 0, 2**40 + i) for i in range(count)]


def client(server: FakeServer, **settings: Any) -> Server:
    quick = {"backoff_seconds": 0.001, "retries": 2, "timeout_seconds": 20.0}
    return Server(server.base_url, **{**quick, **settings})


def ask(server: FakeServer, count: int, **settings: Any) -> dict[str, Drawn]:
    """The answers by problem."""
    drawn = list(client(server, **settings).connected().draw(requests(count), SAMPLING))
    assert len(drawn) == count
    return {one.request.problem.id: one for one in drawn}


def test_a_chat_request_says_everything_that_sampling_depends_on() -> None:
    with fake_server(lambda *_: completion("4", tokens=7, reason="length")) as server:
        (drawn,) = ask(server, 1, api_key="secret", template_kwargs={"t": {"enable_thinking": False}}).values()
    assert server.paths == ["/v1/chat/completions"]
    assert server.bodies == [
        {
            "model": "tiny", "messages": [dict(message) for message in MESSAGES], "max_tokens": 16, "temperature": 0.7,
            "top_p": 1.0, "seed": 2**40 & (2**31 - 1), "chat_template_kwargs": {"enable_thinking": False},
        }
    ]  # fmt: skip
    assert server.keys == {"Bearer secret"}
    assert (drawn.text, drawn.tokens, drawn.finish_reason, drawn.error) == ("4", 7, "length", "")
    assert drawn.request.seed == server.bodies[0]["seed"]


def test_a_model_without_a_chat_template_gets_the_plain_prompt() -> None:
    with fake_server(lambda *_: completion("4", chat=False)) as server:
        (drawn,) = ask(server, 1, api="completions").values()
    assert server.paths == ["/v1/completions"]
    assert server.bodies[0]["prompt"] == "2+2="
    assert "messages" not in server.bodies[0]
    assert drawn.text == "4"


def test_further_fields_are_sent_and_null_removes_one() -> None:
    with fake_server(lambda *_: completion("4")) as server:
        ask(server, 1, extra={"max_tokens": None, "max_completion_tokens": 16, "top_p": 0.9})
    assert "max_tokens" not in server.bodies[0]
    assert (server.bodies[0]["max_completion_tokens"], server.bodies[0]["top_p"]) == (16, 0.9)


@pytest.mark.parametrize("owner", ["vllm", "sglang"])
def test_servers_that_read_the_models_sampling_defaults_are_told_otherwise(owner: str) -> None:
    with fake_server(lambda *_: completion("4"), owner=owner) as server:
        ask(server, 1)
    assert {name: server.bodies[0][name] for name in ("top_k", "min_p", "repetition_penalty")} == {
        "top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0,
    }  # fmt: skip


def test_no_more_requests_are_open_than_asked_for() -> None:
    def slowly(*_: Any) -> Reply:
        time.sleep(0.02)
        return completion("4")

    with fake_server(slowly) as server:
        ask(server, 30, concurrency=5)
    assert 2 <= server.at_once <= 5


def test_passing_troubles_are_retried() -> None:
    troubles = [
        refusal(500, "oops"), refusal(429, "slow down", **{"Retry-After": "0"}), (0, {}, b""),
        (200, {}, b"<html>"), refusal(503, "loading"), (200, {}, b'{"choices": []}'),
    ]  # fmt: skip
    with fake_server(lambda i, _: troubles[i] if i < len(troubles) else completion("4")) as server:
        drawn = ask(server, 1, retries=len(troubles))
    assert drawn["t/0"].text == "4"
    assert len(server.bodies) == len(troubles) + 1


GARBAGE = [
    b"", b"<html>busy</html>", b"[1]", b"null", b'{"choices": {}}', b'{"choices": [{"message": {"content": 5}}]}',
    b'{"choices": [{"message": null}]}', b"[" * 100_000, b"\xff\xfe\x00", b'{"choices": [{}], "usage": 3}',
]  # fmt: skip


@pytest.mark.parametrize("body", GARBAGE, ids=range(len(GARBAGE)))
def test_a_reply_that_is_no_completion_is_an_error_of_its_answer(body: bytes) -> None:
    with fake_server(lambda *_: (200, {"Content-Type": "application/json"}, body)) as server:
        drawn = ask(server, 3)
    assert [one.text for one in drawn.values()] == [None] * 3
    assert all("a reply that is no completion" in one.error for one in drawn.values())
    assert len(server.bodies) == 3 * 3  # each was tried three times


def test_a_server_that_always_fails_gives_errors_and_an_end() -> None:
    with fake_server(lambda *_: refusal(500, "out of\n memory")) as server:
        drawn = ask(server, 4)
    assert {one.error for one in drawn.values()} == {"status 500: out of memory"}


def test_a_request_that_hangs_is_an_error_and_the_others_go_on() -> None:
    with fake_server(lambda i, _: hang() if i == 1 else completion("4")) as server:
        drawn = ask(server, 5, timeout_seconds=0.5)
    assert sorted(one.error for one in drawn.values()) == [""] * 4 + ["no whole reply within 0.5 s"]
    assert len(server.bodies) == 5  # not tried again


def test_a_server_that_sends_a_byte_now_and_then_hangs_all_the_same() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def trickle() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
                for _ in range(100):
                    try:
                        connection.sendall(b" ")
                    except OSError:
                        return
                    time.sleep(0.05)

        threading.Thread(target=trickle, daemon=True).start()
        server = Server(f"http://127.0.0.1:{listener.getsockname()[1]}", "tiny", timeout_seconds=0.5, retries=0)
        (drawn,) = server.draw(requests(1), SAMPLING)
    assert drawn.error == "no whole reply within 0.5 s"


def test_a_refusal_of_the_first_request_ends_it_with_the_servers_words() -> None:
    with (
        fake_server(lambda *_: refusal(400, "this model has no chat template")) as server,
        pytest.raises(PolicyError, match=r"refuses the first request: status 400: this model has no chat template"),
    ):
        ask(server, 10)
    assert len(server.bodies) == 1


def test_a_refusal_of_a_later_request_is_an_error_of_its_answer() -> None:
    with fake_server(lambda i, _: refusal(400, "too long") if i == 2 else completion("4")) as server:
        drawn = ask(server, 4, concurrency=1)
    assert [one.error for one in drawn.values()] == ["", "", "status 400: too long", ""]


def test_a_reasoning_model_that_was_cut_before_its_answer_said_nothing() -> None:
    reply = b'{"choices": [{"message": {"content": null, "reasoning": "hm"}, "finish_reason": "length"}]}'
    with fake_server(lambda *_: (200, {}, reply)) as server:
        (drawn,) = ask(server, 1).values()
    assert (drawn.text, drawn.tokens, drawn.finish_reason) == ("", None, "length")


def test_a_server_that_is_not_there_is_one_sentence_at_once() -> None:
    started = time.monotonic()
    with pytest.raises(PolicyError, match=r"no server answers at http://127\.0\.0\.1:\d+/v1: "):
        Server(f"http://127.0.0.1:{free_port()}/v1", "tiny").connected()
    assert time.monotonic() - started < 5
    for url in ("localhost:8000", "http://", "nonsense"):
        with pytest.raises(PolicyError, match=f"no server answers at {url}: "):
            Server(url, "tiny").connected()


def test_a_server_that_goes_away_ends_it() -> None:
    with fake_server(lambda *_: completion("4")) as server:
        connected = client(server).connected()
    with pytest.raises(PolicyError, match="can no longer be reached"):
        list(connected.draw(requests(3), SAMPLING))


def test_the_model_is_the_only_one_or_must_be_named() -> None:
    with fake_server(lambda *_: completion("4")) as server:
        assert client(server).connected().model == "tiny"
        with pytest.raises(ConfigError, match=r"has no model 'huge'; it offers tiny"):
            client(server, model="huge").connected()
    with (
        fake_server(lambda *_: completion("4"), models=("a", "b")) as server,
        pytest.raises(ConfigError, match=r"--model is needed: .* offers a, b"),
    ):
        client(server).connected()
    with fake_server(lambda *_: completion("4"), models=None) as server:
        assert client(server, model="any").connected().model == "any"


def test_the_version_is_added_to_a_bare_address() -> None:
    with fake_server(lambda *_: completion("4")) as server:
        bare = replace(client(server), base_url=server.base_url.removesuffix("/v1") + "/")
        assert len(list(bare.connected().draw(requests(1), SAMPLING))) == 1
    assert server.paths == ["/v1/chat/completions"]


def test_a_key_that_is_refused_is_one_sentence() -> None:
    with fake_server(lambda *_: completion("4")) as server:
        server.handle = lambda *_: refusal(401, "bad key")  # type: ignore[method-assign]
        with pytest.raises(PolicyError, match="refuses the API key: bad key"):
            client(server, api_key="wrong").connected()


def test_the_key_is_never_shown() -> None:
    assert "secret" not in repr(Server("http://x", api_key="secret"))


def test_closing_early_leaves_no_thread_behind() -> None:
    with fake_server(lambda i, _: hang() if i else completion("4")) as server:
        drawing = client(server).connected().draw(requests(5), SAMPLING)
        next(drawing)
        drawing.close()
        assert not [thread for thread in threading.enumerate() if thread.name == "openai"]


def test_it_works_inside_a_running_event_loop_as_in_a_notebook() -> None:
    async def cell() -> int:
        return len(list(client(server).connected().draw(requests(3), SAMPLING)))

    with fake_server(lambda *_: completion("4")) as server:
        assert asyncio.run(cell()) == 3


def test_nothing_asked_is_nothing_drawn() -> None:
    with fake_server(lambda *_: completion("4")) as server:
        assert list(client(server).connected().draw([], SAMPLING)) == []
