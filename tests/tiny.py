"""Tiny random models for tests: a character tokenizer and a two-layer Llama in an ordinary Hugging Face folder."""

from pathlib import Path

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

CHARACTERS = "0123456789+-*=,.>()? \nabcdefghijklmnopqrstuvwxyz"


def character_tokenizer() -> PreTrainedTokenizerFast:
    """One token a character, plus `<pad>`, `<bos>`, `<eos>` and `<unk>`."""
    vocabulary = {token: i for i, token in enumerate(["<pad>", "<bos>", "<eos>", "<unk>", *CHARACTERS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", bos_token="<bos>", eos_token="<eos>", unk_token="<unk>"
    )


def tiny_llama(*, tied: bool = False, seed: int = 0) -> LlamaForCausalLM:
    """A random two-layer Llama with hidden size 64 over the characters, in float32."""
    tokenizer = character_tokenizer()
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=32,
        max_position_embeddings=256,
        tie_word_embeddings=tied,
        initializer_range=0.2,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    return LlamaForCausalLM(config)


def save_tiny_model(folder: Path, *, tied: bool = False, seed: int = 0, dtype: torch.dtype = torch.float32) -> Path:
    """Writes `tiny_llama` and the character tokenizer to `folder`."""
    tiny_llama(tied=tied, seed=seed).to(dtype).save_pretrained(folder)
    character_tokenizer().save_pretrained(folder)
    return folder
