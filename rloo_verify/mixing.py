"""Which problems a step trains on: a pure function of the seed and the step, so resuming needs no loader state."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from rloo_verify.seeds import derive_seed
from rloo_verify.types import Problem


class ProblemStream:
    """Mixes the problems of several tasks by weight.

    Each task is walked through in a fresh random order every epoch, so no problem comes again before all others of
    its task did.
    """

    def __init__(
        self, problems_by_task: Sequence[Sequence[Problem]], weights: Sequence[float], *, per_step: int, seed: int
    ) -> None:
        """Takes the problems of each task, the tasks' weights, the problems a step, and the run's seed."""
        self._problems = problems_by_task
        self._shares = np.asarray(weights, dtype=float) / sum(weights)
        self._per_step = per_step
        self._seed = seed
        self._tasks = np.empty(0, dtype=np.int64)  # task of each draw since the start of the run
        self._orders: dict[int, tuple[int, npt.NDArray[np.int64]]] = {}  # each task's current epoch, and its order

    def for_step(self, step: int) -> list[Problem]:
        """The problems of a step, counted from 1."""
        first, last = (step - 1) * self._per_step, step * self._per_step
        self._extend(last)
        chosen = []
        for draw in range(first, last):
            task = int(self._tasks[draw])
            earlier = int((self._tasks[:draw] == task).sum())
            chosen.append(self._problem(task, earlier))
        return chosen

    def refill(self, step: int, round_number: int, count: int) -> list[Problem]:
        """Further problems for a step whose groups had too little signal; distinct within the round."""
        rng = np.random.default_rng(derive_seed(self._seed, "refill", step, round_number))
        tasks = rng.choice(len(self._problems), size=count, p=self._shares)
        chosen = []
        for task in range(len(self._problems)):
            wanted = min(int((tasks == task).sum()), len(self._problems[task]))
            picks = rng.choice(len(self._problems[task]), size=wanted, replace=False)
            chosen += [self._problems[task][int(pick)] for pick in picks]
        return chosen

    def _extend(self, length: int) -> None:
        if len(self._tasks) < length:
            # a generator's first values do not depend on how many are drawn, so the sequence only ever grows
            rng = np.random.default_rng(derive_seed(self._seed, "tasks"))
            size = max(length, 2 * len(self._tasks))
            self._tasks = np.searchsorted(self._shares.cumsum(), rng.random(size), side="right").clip(
                max=len(self._problems) - 1
            )

    def _problem(self, task: int, position: int) -> Problem:
        problems = self._problems[task]
        epoch, place = divmod(position, len(problems))
        if self._orders.get(task, (-1,))[0] != epoch:
            rng = np.random.default_rng(derive_seed(self._seed, "order", task, epoch))
            self._orders[task] = epoch, rng.permutation(len(problems))
        return problems[int(self._orders[task][1][place])]
