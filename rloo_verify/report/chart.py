"""Charts as data: what `templates/chart.js` draws with uPlot. Nothing here draws."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

MAX_POINTS = 1000
"""Points of a curve. More steps are put together in equal runs of steps; the page says so."""

Value = float | None
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One curve, area or set of bars.

    Attributes:
        label: Its name in the legend.
        values: One value for each x; None leaves a gap, which curves bridge.
        colour: A colour's name in report.css: of the palette of Okabe and Ito, which people with any kind of colour
            vision can tell apart.
        stacked: Stands on the stacked series before it, as an area (or a bar).
        dots: Each value is marked.
        low: Lower ends of intervals, drawn as a band with `high`; None without a band.
        high: Upper ends.
    """

    label: str
    values: Sequence[Value]
    colour: str
    stacked: bool = False
    dots: bool = False
    low: Sequence[Value] | None = None
    high: Sequence[Value] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """One chart.

    Attributes:
        title: Its heading.
        caption: One sentence on what it shows and what a bad value means.
        x: The values of the horizontal axis, increasing.
        series: What is drawn; stacked ones from the bottom to the top.
        format: How values are written: `rate`, `share`, `count`, `seconds`, `power` (powers of ten) or `number`.
        top: The fixed upper end of the vertical axis; None fits the data.
        x_name: Name of the horizontal axis.
        x_format: How its values are written.
        bars: Bars instead of curves.
        log: Logarithmic vertical axis.
        wide: Takes the whole width of the page.
    """

    title: str
    caption: str
    x: Sequence[float]
    series: Sequence[Series]
    format: str = "number"
    top: float | None = None
    x_name: str = "step"
    x_format: str = "count"
    bars: bool = False
    log: bool = False
    wide: bool = False

    def as_json(self) -> dict[str, Any]:
        """For the page; values have six significant digits there."""
        values = asdict(self)
        for series in values["series"]:
            for name in ("values", "low", "high"):
                series[name] = series[name] and [shorten(value) for value in series[name]]
        return values


class Curves:
    """The rows of metrics.jsonl as columns of at most `MAX_POINTS` points.

    Attributes:
        steps: The last step of each point.
        size: Rows that one point stands for; 1 where nothing was put together.
    """

    def __init__(self, rows: Sequence[Row], points: int = MAX_POINTS) -> None:
        self.size = max(1, -(-len(rows) // points))
        self._parts = [rows[start : start + self.size] for start in range(0, len(rows), self.size)]
        self.steps = [int(part[-1]["step"]) for part in self._parts]

    def mean(self, value: str | Callable[[Row], Any]) -> list[Value]:
        """The mean of a key (or of a function of a row) over each point's rows that have a value."""
        return [sum(known) / len(known) if (known := _known(part, value)) else None for part in self._parts]

    def largest(self, value: str | Callable[[Row], Any]) -> list[Value]:
        """The largest value of a key (or of a function of a row) among each point's rows."""
        return [max(_known(part, value), default=None) for part in self._parts]


def histogram(values: Sequence[float], bins: int) -> tuple[list[float], float]:
    """Edges of at most `bins` equal bins of a round width that hold all values, as left edges and the width."""
    if not values:
        return [0.0], 1.0
    low, high = min(values), max(values)
    width = _round_width((high - low) / bins)
    first = int(low // width)
    return [width * i for i in range(first, int(high // width) + 1)], width


def shorten(value: Value) -> Value:
    """Six significant digits."""
    return None if value is None else float(f"{value:.6g}")


def _round_width(width: float) -> float:
    """The next 1, 2 or 5 times a power of ten, at least 1."""
    power = 1.0
    while True:
        for factor in (1, 2, 5):
            if factor * power >= width:
                return factor * power
        power *= 10


def _known(rows: Sequence[Row], value: str | Callable[[Row], Any]) -> list[float]:
    found = (row.get(value) if isinstance(value, str) else value(row) for row in rows)
    return [float(item) for item in found if isinstance(item, int | float)]
