"""rloo_verify: train reasoning models on verifiable tasks with exact RLOO.

For notebooks: `load_task`, `check_answer`, `run_eval`, `read_run`. They are imported when they are first used, so that
importing the package costs nothing.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rloo_verify.api import check_answer, load_task, read_run, run_eval

__version__ = "0.1.0"

__all__ = ["__version__", "check_answer", "load_task", "read_run", "run_eval"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'rloo_verify' has no attribute {name!r}")
    from rloo_verify import api

    return getattr(api, name)


def __dir__() -> list[str]:
    return __all__
