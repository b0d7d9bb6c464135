"""How numbers are written for people."""

from typing import Any


def rate(value: float | None) -> str:
    """`0.924`, as in the terminal and in the JSON files."""
    return "n/a" if value is None else f"{value:.3f}"


def interval(value: tuple[float, float] | list[float] | None) -> str:
    """`[0.884, 0.951]`; empty where there is none."""
    return "" if not value else f"[{value[0]:.3f}, {value[1]:.3f}]"


def signed(value: float | None) -> str:
    """`+0.031`, with a real minus sign."""
    return "n/a" if value is None else f"{value:+.3f}".replace("-", "\N{MINUS SIGN}")


def percent(value: float | None) -> str:
    """`56%`; `0.4%` and `99.7%` where a whole number would say none or all."""
    if value is None:
        return "n/a"
    rounded = f"{100 * value:.0f}%"
    return f"{100 * value:.1f}%" if rounded in ("0%", "100%") and value not in (0, 1) else rounded


def count(value: float | None) -> str:
    """`10,240`."""
    return "n/a" if value is None else f"{value:,.0f}"


def duration(seconds: float | None) -> str:
    """`8.4 s`, `1 min 55 s`, `3 h 20 min`."""
    if seconds is None:
        return "n/a"
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def plural(number: int, noun: str) -> str:
    """`1 step`, `2 steps`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def p_value(value: float | None) -> str:
    """`0.031`; `< 0.001` below that."""
    if value is None:
        return ""
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


FILTERS: dict[str, Any] = {
    function.__name__: function for function in (rate, interval, signed, percent, count, duration, plural, p_value)
}
"""By the names that the templates use."""
