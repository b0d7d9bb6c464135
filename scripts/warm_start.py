#!/usr/bin/env python3
"""Makes the tiny policy that ships with the package: a 0.9M-parameter Llama, warm-started on three-digit sums.

    python scripts/warm_start.py rloo_verify/_models/tiny-arithmetic

It is shown two ways to answer, on training problems only (the held-out split is never seen): first how to work a sum
out, then, for the last third of the steps, either way half the time.

    directly   347+585=932                                    four tokens, which the tiny model mostly gets wrong
    worked     347+585=7+5=12,4+8+1=13,3+5+1=9>932            digit by digit, which it mostly gets right

So it starts below half right, and what RLOO discovers from the 0/1 rewards alone is that working pays.
"""

import argparse
import random
import time
from pathlib import Path

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from rloo_verify.tasks import find_task

CHARACTERS = "0123456789+-*=,>"
SPECIAL = ["<pad>", "<eos>"]


def character_tokenizer() -> PreTrainedTokenizerFast:
    """One token a character of the arithmetic task, plus padding and the end of the answer."""
    vocabulary = {token: i for i, token in enumerate([*SPECIAL, *CHARACTERS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<pad>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>")


def worked(question: str, answer: str) -> str:
    """The digit-by-digit solution of `a+b`, least significant digit first, with carries."""
    a, b = question.split("+")
    steps, carry = [], 0
    for x, y in zip(reversed(a), reversed(b), strict=True):
        terms = [x, y, *(["1"] if carry else [])]
        total = sum(map(int, terms))
        steps.append(f"{'+'.join(terms)}={total}")
        carry = total // 10
    return ",".join(steps) + f">{answer}"


def batches(tokenizer: PreTrainedTokenizerFast, size: int, direct_shares: list[float], seed: int):
    """One batch of token ids and labels (-100 on the prompt and the padding) a step, by its share of direct answers."""
    rng = random.Random(seed)
    problems = find_task("arithmetic", options={"level": 3}).problems("train")
    for direct_share in direct_shares:
        rows = []
        for problem in rng.sample(problems, size):
            direct = rng.random() < direct_share
            question = problem.plain.removesuffix("=")
            prompt = tokenizer(problem.plain).input_ids
            text = problem.answer if direct else worked(question, problem.answer)
            rows.append((len(prompt), prompt + tokenizer(text).input_ids + [tokenizer.eos_token_id]))
        width = max(len(ids) for _, ids in rows)
        tokens = torch.tensor([ids + [tokenizer.pad_token_id] * (width - len(ids)) for _, ids in rows])
        labels = torch.tensor([[-100] * start + ids[start:] + [-100] * (width - len(ids)) for start, ids in rows])
        yield tokens, labels


def main() -> None:
    """Trains and writes the model folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=480)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--direct-share", type=float, default=0.5, help="share of direct answers in the last third")
    parser.add_argument("--seed", type=int, default=0)
    settings = parser.parse_args()

    torch.manual_seed(settings.seed)
    tokenizer = character_tokenizer()
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=128,
            intermediate_size=384,
            num_hidden_layers=4,
            num_attention_heads=2,
            num_key_value_heads=2,
            head_dim=64,
            max_position_embeddings=128,
            tie_word_embeddings=True,
            pad_token_id=tokenizer.pad_token_id,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
        )
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings.lr, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, settings.lr, total_steps=settings.steps, pct_start=0.1)
    started = time.time()
    worked_only = settings.steps * 2 // 3
    shares = [0.0] * worked_only + [settings.direct_share] * (settings.steps - worked_only)
    for step, (tokens, labels) in enumerate(batches(tokenizer, settings.batch, shares, settings.seed)):
        loss = model(input_ids=tokens, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 100 == 0 or step == settings.steps - 1:
            print(f"step {step}  loss {loss.item():.3f}  {time.time() - started:.0f} s", flush=True)
    model.save_pretrained(settings.folder)
    tokenizer.save_pretrained(settings.folder)
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters written to {settings.folder}")


if __name__ == "__main__":
    main()
