// @ts-check
// Charts as inline SVG, each with a title and the same numbers as a table. Positions across are percentages, so that a
// chart fits any width without being drawn again.

import { el, svg } from "./dom.js";
import { formatCount, formatDelta, formatMs, formatScore, plural } from "./format.js";
import { fold } from "./letters.js";
import { OUTCOMES } from "./run_model.js";
import { sheet } from "./sheet.js";

/** @typedef {import("./dom.js").Child} Child */
/** @typedef {import("./types.js").Effect} Effect */

const VERDICT_SHAPES = "●◐✕▲";
const HEIGHT = 120;

/**
 * @typedef {Object} Options
 * @property {string} title
 * @property {boolean} [quiet] Show no title: the page has one. Screen readers still hear it.
 * @property {boolean} [open] Whether the table is open.
 */

/**
 * @param {Options} options
 * @param {Child[]} drawing
 * @param {string[]} head
 * @param {() => Child[][]} rows
 */
function figure({ title, quiet, open }, drawing, head, rows) {
  return el("figure", { class: "chart", "aria-label": title }, el("figcaption", { class: quiet ? "off-screen" : null }, title), drawing, fold(["Table", el("span", { class: "off-screen" }, ` of ${title}`)], () => sheet(`Table of ${title}`, head, rows()), { open, class: "no-print small" }));
}

/** A function from values to positions across. @param {number} low @param {number} high */
function across(low, high) {
  return (/** @type {number} */ value) => `${Math.round((10000 * (value - low)) / (high - low || 1)) / 100}%`;
}

/** About five round numbers that cover an interval. @param {number} low @param {number} high */
function ticks(low, high) {
  const rough = (high - low) / 5 || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5].find((factor) => factor * power >= rough * 0.999) ?? 10);
  const first = Math.ceil(low / step - 1e-9);
  return Array.from({ length: Math.floor(high / step + 1e-9) - first + 1 }, (_, i) => Number(((first + i) * step).toPrecision(12)));
}

/** @typedef {string|number} Position */

/** @param {Position} x @param {Position} y @param {string} value @param {string} [anchor] @param {string} [kind] A class. */
function label(x, y, value, anchor = "middle", kind) {
  return svg("text", { x, y, class: kind, "text-anchor": anchor }, value);
}

/** @param {Position} x1 @param {Position} y1 @param {Position} x2 @param {Position} y2 @param {string} kind */
function line(x1, y1, x2, y2, kind) {
  return svg("line", { x1, y1, x2, y2, class: kind });
}

/** The marks of a point, or a link if there is an address. @param {string|undefined} href @param {string} words @param {Child[]} marks */
function point(href, words, marks) {
  return svg(href ? "a" : "g", { href, "aria-label": href && words }, svg("title", null, words), marks);
}

/** @param {[number, number]|null|undefined} interval @param {(value: number) => string} format */
function between(interval, format) {
  return interval ? `${format(interval[0])} to ${format(interval[1])}` : "–";
}

/**
 * Counts in bins of the same width from 0 to 1. With `onSelect`, bins are buttons: a click selects a bin, dragging or
 * Shift a range.
 * @param {{counts: number[], all?: number[]}} data `all` are the counts before a filter, drawn paler behind.
 * @param {Options & {noun?: string, passLine?: number|null, selected?: [number, number]|null, onSelect?: (range: [number, number]|null) => void}} options
 *   `selected` is from, and below; the last bin contains its end.
 */
export function histogram({ counts, all = counts }, { noun = "case", passLine = null, selected = null, onSelect, ...options }) {
  const bins = counts.length;
  const edge = (/** @type {number} */ i) => Number((i / bins).toPrecision(12));
  const most = Math.max(1, ...all);
  const isChosen = (/** @type {number} */ i) => Boolean(selected && edge(i) >= selected[0] && edge(i + 1) <= selected[1]);
  const range = (/** @type {number} */ i) => `${formatScore(edge(i))} to ${i < bins - 1 ? "below " : ""}${formatScore(edge(i + 1))}`;
  const x = across(0, 1);
  const [top, bottom] = [20, HEIGHT];
  const stop = Math.max(0, selected ? counts.findIndex((_, i) => isChosen(i)) : counts.indexOf(Math.max(...counts)));
  let from = 0;

  /** @param {number} i @param {number} other @param {boolean} isMore */
  function select(i, other, isMore) {
    const kept = isMore && selected ? selected : [1, 0];
    /** @type {[number, number]} */
    const next = [Math.min(edge(i), edge(other), kept[0]), Math.max(edge(i + 1), edge(other + 1), kept[1])];
    onSelect?.(String(next) === String(selected) ? null : next);
  }

  const bar = (/** @type {number} */ count, /** @type {number} */ i, /** @type {string} */ kind) => {
    const tall = count && Math.max(1.5, ((bottom - top) * count) / most);
    return svg("rect", { class: kind, x: x(edge(i)), width: x(0.9 / bins), y: bottom - tall, height: tall });
  };
  const buttonOf = (/** @type {number} */ i) => ({
    class: isChosen(i) ? "bin chosen" : "bin",
    role: "button",
    tabindex: i === stop ? 0 : -1,
    "aria-pressed": String(isChosen(i)),
    "aria-label": `${range(i)}: ${plural(counts[i], noun)}`,
    onpointerdown: (/** @type {PointerEvent} */ event) => event.button === 0 && (event.preventDefault(), (from = i)),
    onpointerup: (/** @type {PointerEvent} */ event) => event.button === 0 && select(i, from, event.shiftKey),
    onkeydown: (/** @type {KeyboardEvent} */ event) => {
      const bin = /** @type {SVGElement} */ (event.currentTarget);
      const next = { ArrowLeft: bin.previousElementSibling, ArrowRight: bin.nextElementSibling }[event.key];
      if (event.key === "Enter" || event.key === " ") select(i, i, event.shiftKey);
      else if (next?.matches(".bin")) /** @type {SVGElement} */ (next).focus();
      else return;
      event.preventDefault();
      event.stopPropagation();
    },
  });
  return figure(
    options,
    [
      svg(
        "svg",
        { height: bottom + 20, role: onSelect ? "group" : "img", "aria-label": options.title },
        svg("title", null, options.title),
        line(0, top, "100%", top, "grid-line"),
        label(0, 12, plural(most, noun), "start"),
        ticks(0, 1).map((value) => label(x(value), bottom + 16, String(value))),
        all === counts ? null : all.map((count, i) => bar(count, i, "bar pale")),
        line(0, bottom, "100%", bottom, "axis-line"),
        counts.map((count, i) => svg("g", onSelect && buttonOf(i), svg("title", null, `${range(i)}: ${plural(count, noun)}`), svg("rect", { class: "hit", x: x(edge(i)), width: x(1 / bins), y: top, height: bottom - top }), bar(count, i, "bar"))),
        passLine === null ? null : [line(x(passLine), top - 4, x(passLine), bottom, "pass-line"), label(x(passLine), 12, `pass line ${formatScore(passLine)}`, passLine > 0.5 ? "end" : "start")],
      ),
    ],
    ["Score", `${noun}s`, ...(all === counts ? [] : ["before the filter"])],
    () => counts.map((count, i) => [range(i), formatCount(count), all !== counts && formatCount(all[i])]),
  );
}

/**
 * A mean over time.
 * @typedef {Object} TrendMark
 * @property {string} label Of the axis, such as a date.
 * @property {string} name In words, for tooltips and the table.
 * @property {number|null} mean
 * @property {[number, number]|null} [interval]
 * @property {string[]} [changed] What changed the ruler since the point before: the line is broken here.
 * @property {string} [href]
 * @property {boolean} [current]
 * @property {number} [outcome] Draws the shape of a verdict instead of a point.
 */

/** @param {TrendMark[]} points @param {Options & {passLine?: number|null}} options */
export function trend(points, { passLine = null, ...options }) {
  const known = points.flatMap(({ mean, interval }) => (mean === null ? [] : [mean, ...(interval ?? [])]));
  const [low, high] = [Math.max(0, Math.min(1, ...known) - 0.05), Math.min(1, Math.max(0, ...known) + 0.05)];
  const x = across(0, points.length);
  const y = (/** @type {number} */ value) => HEIGHT - ((HEIGHT - 20) * (value - low)) / (high - low || 1);
  const breaks = points.flatMap((mark, i) => (i && mark.changed?.length ? [i] : []));
  const why = (/** @type {number} */ i) => `${points[i].label}: ${points[i].changed?.join("; ")}`;
  const every = Math.ceil(points.length / 6);
  const hasLine = passLine !== null && passLine > low && passLine < high;
  return figure(
    options,
    [
      svg(
        "svg",
        { class: "trend", height: HEIGHT + 20, role: "group", "aria-label": options.title },
        svg("title", null, options.title),
        ticks(low, high).map((value) => [line(0, y(value), "100%", y(value), "grid-line"), label(-6, y(value) + 4, value.toFixed(2), "end")]).flat(),
        hasLine && line(0, y(passLine), "100%", y(passLine), "pass-line"),
        breaks.flatMap((i, number) => [line(x(i), 16, x(i), HEIGHT, "break"), label(x(i), 12, String(number + 1), "middle", "break-name")]),
        points.flatMap(({ mean, interval }, i) => {
          const before = i && !breaks.includes(i) ? points[i - 1].mean : null;
          return mean === null ? [] : [before !== null && line(x(i - 0.5), y(before), x(i + 0.5), y(mean), "curve"), interval && line(x(i + 0.5), y(interval[0]), x(i + 0.5), y(interval[1]), "whisker")];
        }),
        points.map(({ name, mean, interval, href, current, outcome }, i) => {
          if (mean === null) return null;
          const kind = current ? "point current" : "point";
          const mark = outcome === undefined ? svg("circle", { class: kind, cx: x(i + 0.5), cy: y(mean), r: 5 }) : label(x(i + 0.5), y(mean) + 5, VERDICT_SHAPES[outcome], "middle", `${kind} dot ${OUTCOMES[outcome]}`);
          return point(href, `${name}: ${formatScore(mean)}${interval ? `, 95% interval ${between(interval, formatScore)}` : ""}`, [mark]);
        }),
        points.map((mark, i) => (i % every ? null : label(x(i + 0.5), HEIGHT + 16, mark.label))),
      ),
      breaks.length > 0 && el("ol", { class: "breaks small" }, breaks.map((i) => el("li", null, why(i)))),
    ],
    ["Run", "Mean", "95% interval", "What measures the scores changed"],
    () => points.map(({ name, mean, interval, changed }) => [name, formatScore(mean), between(interval, formatScore), changed?.join("; ")]),
  );
}

/**
 * A row of a chart with one axis.
 * @typedef {Object} Row
 * @property {string} label
 * @property {string} value
 * @property {string} words For the tooltip.
 * @property {string} [href]
 * @property {Child[]} marks
 */

/**
 * Rows with a name, marks on a common axis, and a value.
 * @param {Row[]} rows
 * @param {number[]} values Of the axis.
 * @param {(value: number) => string} x
 * @param {(value: number) => string} format
 * @param {string} axis What it means.
 */
function rowsOf(rows, values, x, format, axis) {
  return el(
    "div",
    { class: "chart-rows" },
    rows.map(({ label: name, value, words, href, marks }) =>
      el(href ? "a" : "div", { class: "chart-row", href, title: words }, el("span", { class: "row-name cut" }, name), svg("svg", { height: 24, "aria-hidden": "true" }, values.map((at) => line(x(at), 0, x(at), 24, at ? "grid-line" : "axis-line")), marks), el("span", { class: "number" }, value)),
    ),
    el("div", { class: "chart-row" }, svg("svg", { height: 18, "aria-hidden": "true" }, values.map((at) => label(x(at), 14, format(at))))),
    el("div", { class: "axis-name muted small" }, axis),
  );
}

/**
 * Differences with their intervals, one row each. At 0, nothing changed.
 * @param {Effect[]} effects
 * @param {Options & {axis: string}} options
 */
export function forest(effects, { axis, ...options }) {
  const ends = effects.flatMap(({ mean, interval }) => [mean ?? 0, ...(interval ?? [])]);
  const reach = Math.max(0.02, ...ends.map(Math.abs)) * 1.08;
  const [low, high] = [Math.min(...ends) < 0 ? -reach : -reach / 4, Math.max(...ends) > 0 ? reach : reach / 4];
  const x = across(low, high);
  const rows = effects.map(({ label: name, mean, interval, note, cases, conclusion, href }) => ({
    label: name,
    value: [formatDelta(mean), note].filter(Boolean).join("  "),
    words: `${name}: ${formatDelta(mean)}, 95% interval ${between(interval, formatDelta)}, ${plural(cases, "case")}`,
    href,
    marks: [interval && line(x(interval[0]), 12, x(interval[1]), 12, `effect ${conclusion}`), mean !== null && svg("circle", { class: `effect ${conclusion}`, cx: x(mean), cy: 12, r: 4 })],
  }));
  return figure(
    options,
    [rowsOf(rows, ticks(low, high), x, (value) => (value ? formatDelta(value).replace(/0+$/, "") : "0"), axis)],
    ["", "Difference", "95% interval", "Cases", ...(effects[0].note ? ["p, corrected"] : [])],
    () => effects.map(({ label: name, mean, interval, cases, note }) => [name, formatDelta(mean), between(interval, formatDelta), formatCount(cases), note]),
  );
}

/**
 * A bar on a time axis. Without a start, only its length is known.
 * @typedef {Object} Span
 * @property {string} label
 * @property {number|null} start Milliseconds from any origin.
 * @property {number|null} duration Milliseconds; null if unknown.
 * @property {number} [depth] How far the label is indented.
 * @property {'target'|'judge'|'evaluator'|'waiting'|'failed'} [kind]
 * @property {string} [text] More words, for the tooltip and the table.
 * @property {string} [href]
 */

/** @param {Span[]} spans @param {Options} options */
export function waterfall(spans, options) {
  const starts = spans.flatMap(({ start }) => start ?? []);
  const zero = starts.length ? Math.min(...starts) : 0;
  const after = (/** @type {Span} */ { start }) => (start === null ? null : start - zero);
  const end = Math.max(1, ...spans.map((span) => (after(span) ?? 0) + (span.duration ?? 0)));
  const x = across(0, end);
  const rows = spans.map((span) => ({
    label: `${"  ".repeat(span.depth ?? 0)}${span.label}`,
    value: formatMs(span.duration),
    words: `${span.label}: ${formatMs(span.duration)}, starts after ${formatMs(after(span))}${span.text ? `; ${span.text}` : ""}`,
    href: span.href,
    marks: [svg("rect", { class: `span ${span.kind}${span.start === null ? " unplaced" : ""}`, x: x(after(span) ?? 0), y: 4, width: x(Math.max(end / 200, span.duration ?? 0)), height: 16, rx: 2 })],
  }));
  return figure(
    options,
    [rowsOf(rows, ticks(0, end), x, formatMs, "Time since the first step")],
    ["Step", "Start", "Duration", ""],
    () => spans.map((span, i) => [rows[i].label, formatMs(after(span)), formatMs(span.duration), span.text]),
  );
}
