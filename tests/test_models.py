"""Finding and loading models: whatever is wrong with a folder is one sentence."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny import save_tiny_model

from rloo_verify.errors import ModelError
from rloo_verify.models import BUILTIN, context_length, load_model, load_tokenizer, model_path, policy_dtype


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return save_tiny_model(tmp_path / "model")


def test_names_mean_built_in_models_folders_and_hub_ids_in_this_order(folder: Path) -> None:
    assert model_path("tiny-arithmetic") == str(BUILTIN / "tiny-arithmetic")
    assert model_path(str(folder)) == str(folder)
    assert model_path("org/name") == "org/name"


@pytest.mark.parametrize("name", ["nothing", "/no/such/folder", "./nothing", "~/nothing-at-all", "a/b/c"])
def test_what_is_neither_is_refused_with_the_built_in_names(name: str) -> None:
    with pytest.raises(ModelError, match=r"no such folder, and no hub id; built-in models: .*tiny-arithmetic"):
        model_path(name)


def test_the_built_in_model_loads_and_knows_its_context() -> None:
    model = load_model("tiny-arithmetic", torch.float32)
    assert 5e5 < sum(parameter.numel() for parameter in model.parameters()) < 1.5e6
    assert not model.training
    ids = load_tokenizer("tiny-arithmetic")("12+34=")["input_ids"]
    assert len(ids) == 6
    assert context_length("tiny-arithmetic") >= 56  # the quickstart's longest prompt and answer


def truncated(folder: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:5000])


def without_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()


def without_a_layer(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def with_another_shape(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    weights["model.norm.weight"] = torch.ones(3)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def of_an_unknown_type(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "nothing"}))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (truncated, "cannot load the model"),
        (without_weights, "cannot load the model"),
        (without_a_layer, r"1 parameters of the model, such as model\.layers\.1\.mlp\.up_proj\.weight"),
        (with_another_shape, r"1 parameters of the model, such as model\.norm\.weight"),
        (of_an_unknown_type, "cannot load the model: .*nothing"),
    ],
)
def test_a_damaged_folder_is_one_sentence(folder: Path, damage: Callable[[Path], None], message: str) -> None:
    damage(folder)
    with pytest.raises(ModelError, match=message) as caught:
        load_model(str(folder), torch.float32)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("tied", [False, True])
def test_whole_folders_load_tied_or_not(tmp_path: Path, tied: bool) -> None:
    model = load_model(str(save_tiny_model(tmp_path, tied=tied)), torch.bfloat16)
    assert model.dtype == torch.bfloat16


def test_a_folder_without_a_tokenizer_is_one_sentence(folder: Path) -> None:
    for file in folder.glob("tokenizer*"):
        file.unlink()
    with pytest.raises(ModelError, match="cannot load the tokenizer"):
        load_tokenizer(str(folder))


def test_dtype_names_are_those_of_torch_and_auto_is_exact_on_a_cpu() -> None:
    assert policy_dtype("bfloat16") == torch.bfloat16
    assert policy_dtype("float32") == torch.float32
    assert policy_dtype("auto") == (torch.bfloat16 if torch.cuda.is_available() else torch.float32)
