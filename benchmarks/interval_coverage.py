"""How often the 95% intervals of an evaluation hold the truth: `python benchmarks/interval_coverage.py`.

Problems come from a beta distribution of pass rates, whose moments give the true pass@k and pass^k of the population.
Two minutes on one core.
"""

import numpy as np

from rloo_verify.intervals import rate_intervals
from rloo_verify.passk import pass_all_k, pass_at_k

SIMULATIONS = 2000
POPULATIONS = {"even": (1, 1), "hard": (0.3, 0.7), "very hard": (0.2, 3), "nearly hopeless": (0.1, 9), "easy": (3, 0.2)}
RATES = (("pass@", 1), ("pass@", 8), ("pass@", 16), ("pass^", 2), ("pass^", 4))


def truth(a: float, b: float, rate: str, k: int) -> float:
    # E[p^k] of Beta(a, b) is the product of (a + i) / (a + b + i); of 1 - p it is that of Beta(b, a)
    own = a if rate == "pass^" else b
    moment = float(np.prod([(own + i) / (a + b + i) for i in range(k)]))
    return moment if rate == "pass^" else 1 - moment


def coverage(a: float, b: float, rate: str, k: int, *, problems: int, completions: int) -> float:
    random = np.random.default_rng(1)
    passes = random.binomial(completions, random.beta(a, b, size=(problems, SIMULATIONS)))
    estimate = pass_at_k if rate == "pass@" else pass_all_k
    values = np.array([estimate(completions, c, k) for c in range(completions + 1)])[passes]
    target = truth(a, b, rate, k)
    intervals = rate_intervals(values, [None] * problems)
    return sum(one is not None and one[0] <= target <= one[1] for one in intervals) / SIMULATIONS


def main() -> None:
    for problems in (200, 50, 20, 5):
        for name, (a, b) in POPULATIONS.items():
            cells = []
            for rate, k in RATES:
                share = coverage(a, b, rate, k, problems=problems, completions=16)
                cells.append(f"{rate}{k} {truth(a, b, rate, k):.3f}: {share:.1%}")
            print(f"{problems} problems, {name}: " + ", ".join(cells), flush=True)


if __name__ == "__main__":
    main()
