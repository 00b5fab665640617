"use strict";
// Plots of lines: over time and of distributions, drawn by uPlot. A plot knows how to make itself anew,
// for another width, other colours, other contestants or another repeat.

const DASHES = [[], [9, 4], [2, 3], [10, 3, 2, 3], [5, 5], [14, 4]];
const LANE = 9;
const MARKERS = { markers: { width: 1.5, fill: () => "transparent", dash: (plot, number) => ["solid", "dashed", "dotted"][(number - 1) % 3] } };

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

// Characters that would break a line, turn its direction or show nothing, as escapes: names come from outside.
function visible(text) {
  return text.replace(/[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]/g,
    (letter) => "\\u{" + letter.codePointAt(0).toString(16) + "}");
}

function shortNumber(value) {
  const size = Math.abs(value);
  for (const [step, suffix] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (size >= step) return trimmed(value / step) + suffix;
  }
  return trimmed(value);
}

function trimmed(value) {
  return String(Number(value.toPrecision(3)));
}

function time(microseconds) {
  if (microseconds >= 1e6) return trimmed(microseconds / 1e6) + " s";
  if (microseconds >= 1e3) return trimmed(microseconds / 1e3) + " ms";
  if (microseconds >= 1) return trimmed(microseconds) + " µs";
  return trimmed(microseconds * 1e3) + " ns";
}

// What a moment's plots show: a value for each sample after the first.
const OVER_TIME = [
  {
    name: "throughput", title: "Throughput", unit: "operations/s", wide: true, lanes: true,
    value: (sample, before) => (sample.operations - before.operations) / (sample.at_s - before.at_s),
  },
  { name: "written", title: "Bytes written by the process", unit: "bytes", value: (sample) => sample.write_bytes },
  { name: "fetched", title: "Bytes read from the device", unit: "bytes", value: (sample) => sample.read_bytes },
  { name: "space", title: "Space on the disk", unit: "bytes", value: (sample) => sample.space_bytes },
  { name: "memory", title: "Resident memory", unit: "bytes", value: (sample) => sample.resident_bytes },
  {
    name: "processors", title: "Processors in use", unit: "processors",
    value: (sample, before) => (sample.processor_s - before.processor_s) / (sample.at_s - before.at_s),
  },
];

// One contestant's samples as two columns: time and value.
function columns(timeline, value) {
  let before = { at_s: 0, operations: 0, processor_s: 0 };
  const times = [0], values = [null];
  for (const sample of timeline) {
    if (sample.at_s <= before.at_s) continue;
    times.push(sample.at_s);
    values.push(value(sample, before));
    before = sample;
  }
  return [times, values];
}

// Latency against "nines": a fraction f lies at -log10(1 - f), so that the tail has as much room as
// the rest. The greatest has no finite place; it is drawn a third of a nine above the last.
function nines(cdf) {
  const points = cdf.filter(([latency, fraction]) => latency > 0 && fraction < 1);
  const rows = points.map(([latency, fraction]) => [latency, -Math.log10(1 - fraction)]);
  const last = cdf[cdf.length - 1];
  if (last && last[1] >= 1) rows.push([last[0], (rows.length ? rows[rows.length - 1][1] : 0) + 0.33]);
  const unique = rows.filter(([latency], index) => index + 1 === rows.length || rows[index + 1][0] > latency);
  return [unique.map((row) => row[0]), unique.map((row) => row[1])];
}

function ninesText(place) {
  if (place < 0.2) return "";
  if (place < 1) return "50 %";
  const digits = Math.max(0, Math.round(place) - 2);
  return (100 * (1 - Math.pow(10, -Math.round(place)))).toFixed(digits) + " %";
}

function axis(label, more) {
  return {
    stroke: colour("--faint"), label, labelSize: 16, labelFont: "11px system-ui, sans-serif",
    font: "11px system-ui, sans-serif", labelGap: 0, gap: 3,
    grid: { stroke: colour("--rule"), width: 1 }, ticks: { stroke: colour("--rule"), width: 1, size: 4 },
    ...more,
  };
}

function lineSeries(contestants, shown, text) {
  return contestants.map((name, index) => ({
    label: visible(name), show: shown[index], stroke: colour("--c" + (index % 6)), width: 1.75,
    dash: DASHES[index % DASHES.length], spanGaps: true, points: { show: false },
    value: (plot, value) => (value == null ? "" : text(value)),
  }));
}

function timeOptions(kind, contestants, shown, activity, sync) {
  const lanes = kind.lanes ? activity.filter((one) => one.marks.length).length : 0;
  return {
    padding: [6 + lanes * LANE, 12, 0, 0],
    legend: MARKERS,
    cursor: { sync: { key: sync, setSeries: false }, drag: { x: true, y: false } },
    scales: { x: { time: false }, y: { range: (plot, low, high) => [0, (high || 1) * 1.06] } },
    axes: [axis("seconds", { size: 26 }), axis(kind.unit, { size: 44, values: (plot, ticks) => ticks.map(shortNumber) })],
    series: [{ label: "at", value: (plot, value) => (value == null ? "" : trimmed(value) + " s") },
      ...lineSeries(contestants, shown, shortNumber)],
    hooks: kind.lanes ? { draw: [(plot) => drawActivity(plot, activity)] } : {},
  };
}

function distributionOptions(contestants, shown) {
  const steps = [0, 0.30103, 1, 2, 3, 4, 5, 6, 7];
  return {
    padding: [8, 18, 0, 0],
    legend: MARKERS,
    cursor: { drag: { x: true, y: true } },
    scales: { x: { time: false, distr: 3 }, y: { range: (plot, low, high) => [0, (high || 1) * 1.02] } },
    axes: [
      axis("latency", { size: 26, values: (plot, ticks) => ticks.map((tick) => (tick == null ? null : time(tick))) }),
      axis("of operations", {
        size: 62, splits: (plot, number, low, high) => steps.filter((step) => step >= low && step <= high),
        values: (plot, ticks) => ticks.map(ninesText),
      }),
    ],
    series: [{ label: "at", value: (plot, value) => (value == null ? "" : time(value)) },
      ...lineSeries(contestants, shown, (place) => (100 * (1 - Math.pow(10, -place))).toPrecision(5) + " %")],
  };
}

// A lane a contestant above the plot: compactions as bars, flushes as ticks, its longest gap as a
// triangle; stalls as full bars, and as a veil over the plot below.
function drawActivity(plot, activity) {
  const { ctx: pen, bbox: box } = plot;
  const pixel = devicePixelRatio, height = LANE * pixel;
  const place = (seconds) => Math.min(Math.max(plot.valToPos(seconds, "x", true), box.left), box.left + box.width);
  const lanes = activity.filter((one) => one.marks.length);
  pen.save();
  lanes.forEach((one, lane) => {
    const top = box.top - (lanes.length - lane) * height - 2 * pixel;
    const paint = (mark, alpha, from, tall, fill) => {
      const left = place(mark.from_s), right = place(mark.to_s);
      if (mark.to_s < plot.scales.x.min || mark.from_s > plot.scales.x.max) return;
      pen.globalAlpha = alpha;
      pen.fillStyle = fill;
      pen.fillRect(left, from, Math.max(right - left, 1.5 * pixel), tall);
    };
    const ofKind = (kind) => one.marks.filter((mark) => mark.kind === kind);
    const own = colour("--c" + (one.index % 6)), stall = colour("--stall");
    ofKind("compaction").forEach((mark) => paint(mark, 0.35, top + 2 * pixel, height - 4 * pixel, own));
    ofKind("flush").forEach((mark) => paint(mark, 1, top + pixel, height - 2 * pixel, own));
    ofKind("stall").forEach((mark) => {
      paint(mark, 1, top + pixel, height - 2 * pixel, stall);
      paint(mark, 0.2, box.top, box.height, stall);
    });
    pen.globalAlpha = 1;
    triangle(pen, place(one.gapAt), top, height, colour("--ink"));
  });
  pen.restore();
}

function triangle(pen, left, top, size, fill) {
  pen.fillStyle = fill;
  pen.beginPath();
  pen.moveTo(left - size * 0.45, top);
  pen.lineTo(left + size * 0.45, top);
  pen.lineTo(left, top + size * 0.8);
  pen.fill();
}

// A plot in `element`: `describe()` gives its options and its columns by contestant (null where a
// contestant has none) as they are to be now. What is returned makes it anew.
function linePlot(element, describe) {
  let plot = null;
  const build = () => {
    if (plot) plot.destroy();
    const { options, tables, height } = describe();
    const present = tables.map((table) => table || [[], []]);
    const data = uPlot.join(present.map((table) => [table[0], table[1]]));
    element.dataset.points = present.reduce((count, table) => count + table[1].filter((value) => value != null).length, 0);
    options.width = element.clientWidth || 300;
    options.height = height;
    plot = new uPlot(options, data, element);
  };
  build();
  let width = element.clientWidth;
  new ResizeObserver(() => {
    if (element.clientWidth === width) return;
    width = element.clientWidth;
    plot.setSize({ width, height: plot.height });
  }).observe(element);
  return build;
}
