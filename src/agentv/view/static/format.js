// @ts-check
// Numbers and times as agentv prints them in a terminal: src/agentv/report/format.py and its neighbours, held together
// by conformance/format.json. Unknown values are "–".

const UNKNOWN = "–";

/**
 * A number with a fixed number of decimals. Like Python, and unlike toFixed, a tie goes to the even digit.
 * @param {number} value
 * @param {number} decimals
 */
export function fixed(value, decimals) {
  const size = Math.abs(value);
  const longer = size.toFixed(decimals + 1);
  const tie = longer.endsWith("5") && Number.isInteger(size * 2 ** (decimals + 1)) && Number(longer) === size;
  const cut = longer.slice(0, -1).replace(/\.$/, "");
  const text = tie && Number(cut.at(-1)) % 2 === 0 ? cut : size.toFixed(decimals);
  return value < 0 ? `-${text}` : text;
}

/** @typedef {number|null|undefined} Maybe */

/** Whether a number is unknown. @param {Maybe} value @returns {value is null|undefined} */
const isUnknown = (value) => value === null || value === undefined || Number.isNaN(value);

/** `12,345`. @param {Maybe} count */
export function formatCount(count) {
  return isUnknown(count) ? UNKNOWN : String(count).replace(/\B(?=(\d{3})+$)/g, ","); // The first use of `Intl` takes 30 ms.
}

/**
 * `1 case`, `2,000 cases`.
 * @param {number} count
 * @param {string} noun
 * @param {string} [several] The plural, if it is not the noun with an s.
 */
export function plural(count, noun, several = `${noun}s`) {
  return `${formatCount(count)} ${count === 1 ? noun : several}`;
}

/** Two decimals, truncated: 0.7999 is not shown as 0.80. @param {Maybe} score */
export function formatScore(score) {
  return isUnknown(score) ? UNKNOWN : (Math.floor(Number((score * 100).toFixed(6))) / 100).toFixed(2);
}

/** Two digits. @param {number} number */
const two = (number) => String(Math.floor(number)).padStart(2, "0");

/** `1.2 s`, `4 min 05 s`, `2 h 10 min`. @param {Maybe} seconds */
export function formatDuration(seconds) {
  if (isUnknown(seconds)) return UNKNOWN;
  if (seconds < 9.95) return `${fixed(seconds, 1)} s`;
  const whole = Number(fixed(seconds, 0));
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${two(whole % 60)} s`;
  return `${Math.floor(whole / 3600)} h ${two((whole % 3600) / 60)} min`;
}

/** Milliseconds: `12 ms` below a second, then as formatDuration. @param {Maybe} ms */
export function formatMs(ms) {
  return isUnknown(ms) ? UNKNOWN : ms < 999.5 ? `${fixed(ms, 0)} ms` : formatDuration(ms / 1000);
}

/** `$0.0123`, `$1,234.50`. @param {Maybe} usd */
export function formatCost(usd) {
  if (isUnknown(usd)) return UNKNOWN;
  if (usd > 0 && usd < 0.0001) return "<$0.0001";
  return `$${usd < 1 ? fixed(usd, 4) : fixed(usd, 2).replace(/\d+/, (whole) => formatCount(Number(whole)))}`;
}

/** `51 tokens (1 in + 38 cached, 12 out)`. @param {{input?: number, output?: number, cached?: number|null}|null|undefined} usage */
export function formatTokens(usage) {
  if (!usage) return UNKNOWN;
  const { input = 0, output = 0, cached } = usage;
  return `${plural(input + output + (cached ?? 0), "token")} (${formatCount(input)} in${cached ? ` + ${formatCount(cached)} cached` : ""}, ${formatCount(output)} out)`;
}

/** `45%`. @param {Maybe} share */
export function formatPercent(share) {
  return isUnknown(share) ? UNKNOWN : `${fixed(100 * share, 0)}%`;
}

/** A difference of scores: three decimals, or one digit if it is smaller. @param {Maybe} delta */
export function formatDelta(delta) {
  if (isUnknown(delta)) return UNKNOWN;
  const sign = delta > 0 ? "+" : "";
  if (delta === 0 || Math.abs(delta) >= 0.0005) return sign + fixed(delta, 3);
  const [digit, power] = delta.toExponential(0).split("e-");
  return sign + (Number(power) <= 4 ? fixed(delta, Number(power)) : `${digit}e-${power.padStart(2, "0")}`);
}

/** `p = 0.012` or `p < 0.001`. @param {number} p */
export function formatP(p) {
  return p < 0.001 ? "p < 0.001" : `p = ${fixed(p, 3)}`;
}

/** How far an interval reaches from the mean: ` ±0.05`, or nothing. @param {number|null} mean @param {number[]|null|undefined} interval */
export function formatReach(mean, interval) {
  if (mean === null || !interval) return "";
  const distance = Math.max(mean - interval[0], interval[1] - mean);
  return ` ±${fixed(Math.ceil(Number(fixed(distance * 100, 6))) / 100, 2)}`;
}

/** The local date and time: `2026-11-16 20:05`. @param {string|number|null|undefined} time ISO 8601, or milliseconds since 1970. */
export function formatTime(time) {
  const date = new Date(time ?? NaN);
  if (Number.isNaN(date.getTime())) return UNKNOWN;
  return `${String(date.getFullYear()).padStart(4, "0")}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${two(date.getHours())}:${two(date.getMinutes())}`;
}

/** The name of a run, or its id if it has none. @param {{name: string|null, address: string}} run */
export function runName(run) {
  return run.name ?? run.address;
}
