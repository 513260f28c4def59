/** JSON and UTF-8 without the silent repairs of JavaScript: no NaN that becomes null, no half of a character. */

/** UTF-8 bytes -> text, or a TypeError; a byte order mark stays what it is unless it may be dropped. */
export function decode(data: Uint8Array, { dropMark = false } = {}): string {
  return new TextDecoder("utf-8", { fatal: true, ignoreBOM: !dropMark }).decode(data);
}

/** JSON, or a TypeError for what `JSON.stringify` would leave out or turn into `null` or `{}`. */
export function strictJson(value: unknown): string {
  return JSON.stringify(value, (key, item: unknown) => {
    const lost = lossy(item);
    if (lost !== undefined) throw new TypeError(`${lost} at ${key === "" ? "the top" : JSON.stringify(key)}`);
    return item;
  });
}

function lossy(item: unknown): string | undefined {
  if (typeof item === "number" && !Number.isFinite(item)) return String(item);
  if (typeof item === "function" || typeof item === "symbol") return `a ${typeof item}`;
  return item instanceof Map || item instanceof Set ? `a ${item.constructor.name}` : undefined;
}

/** Halves of a surrogate pair as `JSON.stringify` writes them; other escapes are matched to be passed by. */
const ESCAPES = /\\(?:(ud[89a-f][0-9a-f]{2})|.)/g;

export function hasHalfCharacter(json: string): boolean {
  return json.includes("\\ud") && [...json.matchAll(ESCAPES)].some((match) => match[1] !== undefined);
}

export function mendHalfCharacters(json: string): string {
  if (!json.includes("\\ud")) return json;
  return json.replace(ESCAPES, (whole, half: string | undefined) => (half === undefined ? whole : "\ufffd"));
}

/** What a value is, for a message. */
export function a(value: unknown): string {
  if (value === null || value === undefined) return "nothing";
  if (Array.isArray(value)) return "a list";
  return typeof value === "object" ? "an object" : `a ${typeof value}`;
}

/** A value as a message shows it: short, on one line. */
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
