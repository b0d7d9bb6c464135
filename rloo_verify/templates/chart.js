// Charts: what rloo_verify/report/chart.py describes, drawn with uPlot when it comes into view, and again when the
// width or the colour scheme of the page changes.
"use strict";

const DARK = matchMedia("(prefers-color-scheme: dark)");
const CHART_HEIGHT = { wide: 300, other: 220 };

const FORMATS = {
  rate: (value) => value.toFixed(3),
  share: (value) => `${(100 * value).toFixed(value > 0 && value < 0.1 ? 1 : 0)}%`,
  count: (value) => (Math.abs(value) < 10000 ? whole(value) : compact(value)),
  seconds: (value) => `${value.toFixed(value < 10 ? 2 : 0)} s`,
  power: (value) => value.toExponential(1).replace("-", "\u2212"),
  signed: (value) => `${value > 0 ? "+" : value < 0 ? "\u2212" : ""}${Math.abs(value).toFixed(1)}`,
  number: (value) => (Math.abs(value) >= 10000 ? compact(value) : Number(value.toPrecision(3)).toLocaleString("en")),
};
const whole = (value) => Math.round(value).toLocaleString("en");
const compact = (value) => Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 }).format(value);
const short = {
  rate: (value) => value.toFixed(1),
  power: (value) => value.toExponential(0).replace("-", "\u2212"),
  seconds: (value) => `${Number(value.toPrecision(3))} s`,
};

const WHOLE_STEPS = [...Array(10).keys()].flatMap((power) => [1, 2, 5].map((factor) => factor * 10 ** power));
const tens = (_plot, splits) => splits.map((value) => (Number.isInteger(Math.round(1e6 * Math.log10(value)) / 1e6) ? value : null));

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/** Sums of stacked values from the bottom up; values of a series that is not stacked stay as they are. */
function heights(series) {
  let below = null;
  return series.map((one) => {
    if (!one.stacked) return one.values;
    below = one.values.map((value, i) => (value ?? 0) + (below ? below[i] : 0));
    return below;
  });
}

/** What the legend says of a series: its value under the pointer; else its last value, or the sum of its bars. */
function legendText(format, one, bars) {
  const shown = (i) => {
    const value = one.values[i];
    if (value === null || value === undefined) return "\u2013";
    const ends = one.low && one.low[i] !== null ? ` [${format(one.low[i])}, ${format(one.high[i])}]` : "";
    return format(value) + ends;
  };
  const idle = bars ? format(one.values.reduce((sum, value) => sum + value, 0)) : shown(one.values.findLastIndex((value) => value !== null));
  return (_plot, _value, _series, i) => (i === null || i === undefined ? idle : shown(i));
}

/** Bars of a stack are drawn from the tallest to the shortest, each over the one before. */
function inDrawingOrder(chart, items) {
  return chart.bars ? [...items].reverse() : items;
}

/** uPlot's options and data. */
function describe(chart, width) {
  const format = FORMATS[chart.format];
  const formatX = FORMATS[chart.x_format];
  const data = [chart.x, ...inDrawingOrder(chart, heights(chart.series))];
  const series = [{ label: chart.x_name, value: (_plot, value) => (value !== null && value !== undefined ? formatX(value) : chart.bars ? "all" : formatX(chart.x.at(-1))) }];
  const bands = [];
  inDrawingOrder(chart, chart.series).forEach((one, place) => {
    const ink = colour(one.colour);
    series.push({
      label: one.label,
      value: legendText(format, one, chart.bars),
      stroke: ink,
      width: chart.bars || one.stacked ? 0 : one.dots ? 2 : 1.5,
      fill: chart.bars ? ink : one.stacked ? `${ink}b8` : undefined,
      paths: chart.bars ? uPlot.paths.bars({ size: [0.9, 70], radius: 0.1 }) : undefined,
      spanGaps: true,
      points: { show: (one.dots || chart.x.length === 1) && !chart.bars, size: 7, fill: ink, stroke: ink },
    });
    if (one.stacked && !chart.bars && place > 0) bands.push({ series: [place + 1, place], fill: `${ink}b8` });
  });
  for (const one of chart.series) {
    if (!one.low) continue;
    const [high, low] = [data.push(one.high) - 1, data.push(one.low) - 1];
    const edge = { class: "band", stroke: "transparent", spanGaps: true, points: { show: false } };
    series.push(edge, { ...edge });
    bands.push({ series: [high, low], fill: `${colour(one.colour)}2e` });
  }
  return { options: options(chart, width, series, bands), data };
}

function options(chart, width, series, bands) {
  const format = short[chart.format] ?? FORMATS[chart.format];
  const axis = {
    stroke: colour("soft"),
    font: "12px system-ui, sans-serif",
    grid: { stroke: colour("line"), width: 1 },
    ticks: { stroke: colour("line"), width: 1, size: 4 },
  };
  const range = chart.top === null ? (_plot, _low, high) => [0, high > 0 ? high * 1.08 : 1] : [0, chart.top];
  const half = chart.bars ? (chart.x.length > 1 ? (chart.x[1] - chart.x[0]) / 2 : 0.5) : 0;
  const ends = [chart.x[0] - half, chart.x.at(-1) + half];
  return {
    width,
    height: chart.wide ? CHART_HEIGHT.wide : CHART_HEIGHT.other,
    series,
    bands,
    padding: [10, 14, 0, 0],
    scales: {
      x: { time: false, range: (_plot, low, high) => (chart.bars ? ends : low === high ? [low - 1, high + 1] : [low, high]) },
      y: chart.log ? { distr: 3 } : { range },
    },
    axes: [
      { ...axis, size: 30, space: 60, incrs: chart.x_format === "count" ? WHOLE_STEPS : undefined, values: (_plot, splits) => splits.map(FORMATS[chart.x_format]) },
      { ...axis, ...(chart.log ? { grid: { ...axis.grid, filter: tens }, ticks: { ...axis.ticks, filter: tens } } : {}), size: 56, space: 32, values: (_plot, splits) => splits.map((v) => (v === null ? null : format(v))) },
    ],
    cursor: { points: { size: 7 }, drag: { x: !chart.bars, y: false }, ...(chart.bars ? {} : { sync: { key: chart.x_name } }) },
    legend: { markers: { width: 0, fill: (_plot, i) => colour(inDrawingOrder(chart, chart.series)[i - 1]?.colour ?? "line") } },
  };
}

function startCharts(charts) {
  const drawn = new Map();
  const draw = (figure) => {
    const place = figure.querySelector(".plot");
    const chart = charts[Number(figure.dataset.chart)];
    drawn.get(figure)?.destroy();
    const { options, data } = describe(chart, place.clientWidth);
    drawn.set(figure, new uPlot(options, data, place));
  };
  const sight = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting || drawn.has(entry.target)) continue;
      draw(entry.target);
      width.observe(entry.target);
    }
  }, { rootMargin: "300px" });
  const width = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      const plot = drawn.get(target);
      const now = target.querySelector(".plot").clientWidth;
      if (plot && plot.width !== now) plot.setSize({ width: now, height: plot.height });
    }
  });
  for (const figure of document.querySelectorAll("figure[data-chart]")) sight.observe(figure);
  DARK.addEventListener("change", () => [...drawn.keys()].forEach(draw));
}
