/** Strict JSON and UTF-8: NaN does not silently become null, and unpaired surrogates are detected. */

/** Decodes UTF-8, or throws a TypeError. `dropMark` removes a byte order mark. */
export function decode(data: Uint8Array, { dropMark = false } = {}): string {
  return new TextDecoder("utf-8", { fatal: true, ignoreBOM: !dropMark }).decode(data);
}

/** Serializes as JSON. Throws a TypeError for values that `JSON.stringify` would drop or turn into `null` or `{}`. */
export function strictJson(value: unknown): string {
  return JSON.stringify(value, (key, item: unknown) => {
    const lost = lossy(item);
    if (lost !== undefined) throw new TypeError(`${lost} at ${key === "" ? "the top level" : JSON.stringify(key)}`);
    return item;
  });
}

function lossy(item: unknown): string | undefined {
  if (typeof item === "number" && !Number.isFinite(item)) return String(item);
  if (typeof item === "function" || typeof item === "symbol") return `a ${typeof item}`;
  return item instanceof Map || item instanceof Set ? `a ${item.constructor.name}` : undefined;
}

/** Matches unpaired surrogates as `JSON.stringify` escapes them. Other escapes match too, so that they are skipped. */
const ESCAPES = /\\(?:(ud[89a-f][0-9a-f]{2})|.)/g;

export function hasHalfCharacter(json: string): boolean {
  return json.includes("\\ud") && [...json.matchAll(ESCAPES)].some((match) => match[1] !== undefined);
}

export function replaceHalfCharacters(json: string): string {
  if (!json.includes("\\ud")) return json;
  return json.replace(ESCAPES, (whole, half: string | undefined) => (half === undefined ? whole : "\ufffd"));
}

/** The kind of a value, for error messages. */
export function a(value: unknown): string {
  if (value === null || value === undefined) return "nothing";
  if (Array.isArray(value)) return "a list";
  return typeof value === "object" ? "an object" : `a ${typeof value}`;
}

/** A value for error messages: on one line, truncated. */
export function shown(value: unknown): string {
  let text: string | undefined;
  try {
    text = typeof value === "number" ? String(value) : JSON.stringify(value);
  } catch {
    text = undefined;
  }
  if (text === undefined) return a(value);
  return text.length > 200 ? `${text.slice(0, 200)}...` : text;
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
