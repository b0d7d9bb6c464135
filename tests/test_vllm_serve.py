"""Evaluation through a real vLLM server: the same answers as an engine in this process."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from fake_server import free_port

from rloo_verify.models import model_path

pytestmark = [pytest.mark.vllm, pytest.mark.slow]

START_SECONDS = 240


@pytest.fixture(scope="module")
def base_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server of the built-in policy."""
    log, port = tmp_path_factory.mktemp("server") / "log", free_port()
    # `vllm serve` of the CPU package asks for the metadata of the GPU package and does not start; this is its module
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", model_path("tiny-arithmetic")]
    command += ["--served-model-name", "tiny", "--host", "127.0.0.1", "--port", str(port), "--max-model-len", "128"]
    command += ["--dtype", "float32", "--enforce-eager"]
    quiet = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "OMP_NUM_THREADS": "1"}
    cpu = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
    with log.open("w") as file:
        server = subprocess.Popen(command, stdout=file, stderr=file, env={**os.environ, **quiet, **cpu})
    try:
        limit = time.monotonic() + START_SECONDS
        while not answers(f"http://127.0.0.1:{port}/health"):
            assert server.poll() is None, log.read_text()[-2000:]
            assert time.monotonic() < limit, "the server does not start"
            time.sleep(0.5)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        server.terminate()
        try:
            server.wait(30)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait(30)


def answers(url: str) -> bool:
    try:
        return httpx2.get(url, timeout=5).status_code == 200
    except httpx2.TransportError:
        return False


def test_greedy_answers_are_those_of_the_engine_in_this_process(base_url: str, tmp_path: Path) -> None:
    import rloo_verify as rv
    from rloo_verify.samples import read_samples

    asked = {"problems": 40, "temperature": 0.0, "max_new_tokens": 40}
    served = rv.run_eval("arithmetic", base_url=base_url, api="completions", out=tmp_path / "served", **asked)
    here = rv.run_eval("arithmetic", "tiny-arithmetic", engine="transformers", out=tmp_path / "here", **asked)
    assert served.rates == here.rates
    texts = [
        {s.problem: s.text for s in read_samples(tmp_path / name / "samples.jsonl")} for name in ("served", "here")
    ]
    assert texts[0] == texts[1]


def test_seeded_answers_repeat_and_differ_from_each_other(base_url: str, tmp_path: Path) -> None:
    import rloo_verify as rv
    from rloo_verify.samples import read_samples

    texts = []
    for name in ("one", "two"):
        rv.run_eval(
            "arithmetic", base_url=base_url, api="completions", out=tmp_path / name, problems=5, n=8, max_new_tokens=40
        )
        samples = read_samples(tmp_path / name / "samples.jsonl")
        texts.append({(sample.problem, sample.sample_index): sample.text for sample in samples})
    assert texts[0] == texts[1]
    assert len({text for (problem, _), text in texts[0].items() if problem == "arithmetic/test/0"}) > 1


def test_a_chat_with_a_model_that_has_no_template_is_one_sentence(base_url: str, tmp_path: Path) -> None:
    import rloo_verify as rv
    from rloo_verify.errors import PolicyError

    with pytest.raises(PolicyError, match=r"refuses the first request: status 400: .*chat template"):
        rv.run_eval("arithmetic", base_url=base_url, out=tmp_path / "chat", problems=2, max_new_tokens=40)
