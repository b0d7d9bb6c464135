#!/usr/bin/env python3
"""The demo on several seeds: held-out pass@1 before and after, and seconds. Each seed draws other completions.

    python benchmarks/demo_seeds.py [--seeds 5]

Prints one JSON line. The target: up by at least 0.30 on at least 4 of 5 seeds, each under 4 minutes on two cores.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path


def main() -> None:
    """Runs the seeds one after the other and prints the JSON line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--config", default="quickstart")
    settings = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(settings.seeds):
            command = [sys.executable, "-m", "rloo_verify", "train", settings.config, "--run.out", folder]
            command += ["--run.name", f"seed-{seed}", "--run.seed", str(seed)]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            summary = json.loads((Path(folder) / f"seed-{seed}" / "summary.json").read_text())
            rows.append({"seed": seed, **summary["pass@1"], "seconds": round(summary["seconds"], 1)})
            print(rows[-1], file=sys.stderr, flush=True)
    up = sum(row["after"] - row["before"] >= 0.30 for row in rows)
    print(json.dumps({"config": settings.config, "seeds_up_by_0.30": up, "runs": rows}))


if __name__ == "__main__":
    main()
