#!/usr/bin/env python3
"""Shared-prompt packing against a row for each completion, over shapes of groups: is the rule's choice ever the slower?

    python benchmarks/packing.py [--model models/smollm2-135m-instruct] [--json]

Both layouts take turns, forward and backward of the same completions; CPU time, the least of some rounds. The rule
(`Packing` in rloo_verify/packing.py) shares a prompt where the tokens saved are worth more than gathering what the
completions attend to. Exits with 1 where its choice costs over 10% more than the other.
"""

import argparse
import json
import random
import sys
import time
from pathlib import Path

import torch

from rloo_verify.logprobs import Layout, Scorer
from rloo_verify.models import load_model
from rloo_verify.packing import NO_PACKING, Packing, Scored

SHAPES = [(32, 8, 10, 4), (32, 2, 10, 4), (32, 2, 2, 4), (32, 4, 2, 8), (8, 2, 2, 64), (4, 8, 4, 256), (2, 8, 90, 24)]
"""Problems, answers of each, prompt tokens, answer tokens."""
ALWAYS = Packing(0.0)
TOLERANCE = 1.1


def cost(scorer: Scorer, sequences: list[Scored], packing: Packing) -> float:
    """CPU seconds of one forward and backward."""
    scorer.packing = packing
    started = time.process_time()
    for rows in scorer.micro_batches(sequences, 4096):
        scorer.token_logprobs(rows, 1.0).logprobs_K.sum().backward()
    return time.process_time() - started


def main() -> None:
    """Prints a line for each shape."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="tiny-arithmetic")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    settings = parser.parse_args()
    torch.set_num_threads(1)
    model = load_model(settings.model, torch.float32).train()
    vocabulary = model.get_input_embeddings().num_embeddings
    scorer = Scorer(model, vocabulary, layout=Layout.SHARED)
    scorer._use_attention()
    rule, rng, worst, report = scorer.packing, random.Random(0), 0.0, []
    for shape in SHAPES:
        problems, group, prompt, answer = shape
        sequences = []
        for _ in range(problems):
            ids = tuple(rng.randrange(vocabulary) for _ in range(prompt))
            for _ in range(group):
                own = tuple(rng.randrange(vocabulary) for _ in range(answer))
                sequences.append(Scored(len(sequences), ids, own))
        rounds = [
            (cost(scorer, sequences, ALWAYS), cost(scorer, sequences, NO_PACKING)) for _ in range(settings.rounds)
        ]
        shared, apart = map(min, zip(*rounds, strict=True))
        scorer.packing = rule
        shares = any(len(row.scored) > 1 for rows in scorer.micro_batches(sequences, 4096) for row in rows)
        loss = (shared if shares else apart) / min(shared, apart)
        worst = max(worst, loss)
        report.append({"shape": shape, "shared": shared, "apart": apart, "apart_over_shared": apart / shared,
                       "rule": "share" if shares else "apart", "loss": loss})  # fmt: skip
        if not settings.json:
            print(
                f"{problems} problems x {group} answers, {prompt} + {answer} tokens: shared {shared:.3f} s, "
                f"apart {apart:.3f} s; the rule takes {'shared' if shares else 'apart'}, {loss:.2f} of the least",
                flush=True,
            )
    if settings.json:
        print(json.dumps({"model": Path(settings.model).name, "worst": worst, "shapes": report}))
    sys.exit(worst > TOLERANCE)


if __name__ == "__main__":
    main()
