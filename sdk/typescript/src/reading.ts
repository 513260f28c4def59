/** Extracts a verdict from a judge's reply: one of the choices, or one JSON value. Nothing is guessed. */

import { NotJsonError, readAt, readWhole, TwiceError } from "./json.js";

const QUOTES = ['""', "''", "``", "“”", "„“", "‘’", "‚‘", "«»"];
const SHOWN = 200;
const MOST_BRACKETS = 1_000;
const FENCE = "```";
/** White space as defined by the Python SDK, so that both read the same verdicts. */
const BLANK = "[\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000]";
const BLANK_BEFORE = new RegExp(`^${BLANK}+`);
const BLANKS = new RegExp(`${BLANK}+`, "g");
const IS_BLANK = new RegExp(BLANK);

/** A reply contains no verdict. The message completes `your last reply could not be used: `. */
export class NoVerdict extends Error {}

export function strip(text: string): string {
  return stripEnd(text.replace(BLANK_BEFORE, ""));
}

function stripEnd(text: string): string {
  let end = text.length;
  while (end > 0 && IS_BLANK.test(text[end - 1]!)) end--;
  return text.slice(0, end);
}

/** A choice normalized for comparison: lower case, without surrounding quotes and a final period. */
export function folded(text: string): string {
  let bare = withoutStop(strip(text));
  if (bare.length > 1 && QUOTES.includes(bare[0]! + bare[bare.length - 1]!)) {
    bare = withoutStop(strip(bare.slice(1, -1)));
  }
  return bare.toLowerCase();
}

function withoutStop(text: string): string {
  return text.endsWith(".") ? stripEnd(text.slice(0, -1)) : text;
}

/** The choice that a reply names, as the caller wrote it. The keys of `choices` are `folded`. */
export function readChoice(reply: string, choices: ReadonlyMap<string, string>): string {
  const choice = choices.get(folded(reply));
  if (choice === undefined) {
    throw new NoVerdict(`it is ${quoted(reply)}, which is not one of: ${[...choices.values()].join(", ")}`);
  }
  return choice;
}

/** The JSON value of a reply: the whole reply, or the only JSON value in it. */
export function readJson(reply: string): unknown {
  const text = strip(reply);
  if (text === "") throw new NoVerdict("it is empty, expected JSON");
  const whole = [...jsonIn([text])];
  if (whole.length > 0) return whole[0];
  let found = [...inside(text)];
  if (found.length === 0) found = [...jsonIn(fenced(text))];
  if (found.length > 1) throw new NoVerdict(`it contains more than one JSON value, ${quoted(reply)}`);
  if (found.length === 0) throw new NoVerdict(`it contains no valid JSON, ${quoted(reply)}`);
  return found[0];
}

/** The values of the strings that are valid JSON. */
function* jsonIn(strings: Iterable<string>): Generator<unknown> {
  for (const text of strings) {
    try {
      yield readWhole(text);
    } catch (error) {
      if (!(error instanceof NotJsonError || error instanceof TwiceError)) throw error;
    }
  }
}

/**
 * The objects and arrays in a text. A bracket that does not start valid JSON stays open until a closing bracket. A value
 * inside an open bracket may be a fragment of truncated JSON, so it is not a verdict.
 */
function* inside(text: string): Generator<unknown> {
  const bracket = /[[\]{}]/g;
  let open = 0;
  let brackets = 0;
  for (let match = bracket.exec(text); match !== null; match = bracket.exec(text)) {
    if (match[0] === "}" || match[0] === "]") {
      open = Math.max(0, open - 1);
      continue;
    }
    brackets += 1;
    if (brackets > MOST_BRACKETS) throw new NoVerdict(`it contains too many brackets, ${quoted(text)}`);
    let found: { value: unknown; end: number };
    try {
      found = readAt(text, match.index);
    } catch (error) {
      if (error instanceof TwiceError) throw new NoVerdict(`its JSON has a duplicate key ${repr(error.key)}`);
      if (!(error instanceof NotJsonError)) throw error;
      open += 1;
      continue;
    }
    if (open > 0) throw new NoVerdict(`its JSON is malformed or inside other brackets, ${quoted(text)}`);
    bracket.lastIndex = found.end;
    yield found.value;
  }
}

/** The contents of the code fences of a text. */
function* fenced(text: string): Generator<string> {
  const parts = text.split(FENCE);
  if (parts.length % 2 === 0) return;
  for (let index = 1; index < parts.length; index += 2) {
    const part = parts[index]!;
    const newline = part.indexOf("\n");
    yield newline < 0 ? "" : strip(part.slice(newline + 1));
  }
}

/** A reply in quotes, on one line, truncated. */
function quoted(text: string): string {
  const words = [...strip(text).replace(BLANKS, " ")];
  return words.length > SHOWN ? `${repr(words.slice(0, SHOWN).join(""))} (truncated)` : repr(words.join(""));
}

/** A string in quotes, formatted like Python's `repr`, so that both SDKs send the same prompts. */
export function repr(text: string): string {
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  const escaped = text.replace(/[\\'"]|(?! )[\p{C}\p{Z}]/gu, (sign) => {
    if (sign === "\\" || sign === quote) return `\\${sign}`;
    if (sign === "'" || sign === '"') return sign;
    if (sign === "\n" || sign === "\r" || sign === "\t") return { "\n": "\\n", "\r": "\\r", "\t": "\\t" }[sign];
    const hex = sign.codePointAt(0)!.toString(16);
    if (hex.length <= 2) return `\\x${hex.padStart(2, "0")}`;
    return hex.length <= 4 ? `\\u${hex.padStart(4, "0")}` : `\\U${hex.padStart(8, "0")}`;
  });
  return `${quote}${escaped}${quote}`;
}
