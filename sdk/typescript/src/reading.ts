/** A verdict in what a judge said: a choice, or one JSON value. Found exactly or not at all, never guessed. */

import { NotJsonError, readAt, readWhole, TwiceError } from "./json.js";

const QUOTES = ['""', "''", "``", "“”", "„“", "‘’", "‚‘", "«»"];
const SHOWN = 200;
const MOST_BRACKETS = 1_000;
const FENCE = "```";
/** White space as the other SDK sees it, so that both read the same verdicts. */
const BLANK = "[\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000]";
const BLANK_BEFORE = new RegExp(`^${BLANK}+`);
const BLANKS = new RegExp(`${BLANK}+`, "g");
const IS_BLANK = new RegExp(BLANK);

/** There is no verdict in a reply; the message goes on after `your last reply cannot be used: `. */
export class NoVerdict extends Error {}

export function strip(text: string): string {
  return stripEnd(text.replace(BLANK_BEFORE, ""));
}

function stripEnd(text: string): string {
  let end = text.length;
  while (end > 0 && IS_BLANK.test(text[end - 1]!)) end--;
  return text.slice(0, end);
}

/** What of a choice is compared: its words in lower case, without quotes around and a full stop after them. */
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

/** The choice a reply is, as it was offered; `choices` has them by `folded`. */
export function readChoice(reply: string, choices: ReadonlyMap<string, string>): string {
  const choice = choices.get(folded(reply));
  if (choice === undefined) {
    throw new NoVerdict(`it is ${quoted(reply)}, which is none of: ${[...choices.values()].join(", ")}`);
  }
  return choice;
}

/** The JSON value that is the reply, or the only one in it. */
export function readJson(reply: string): unknown {
  const text = strip(reply);
  if (text === "") throw new NoVerdict("it is empty, and JSON was asked for");
  const whole = [...jsonIn([text])];
  if (whole.length > 0) return whole[0];
  let found = [...inside(text)];
  if (found.length === 0) found = [...jsonIn(fenced(text))];
  if (found.length > 1) throw new NoVerdict(`it holds more than one JSON value, ${quoted(reply)}`);
  if (found.length === 0) throw new NoVerdict(`it holds no valid JSON, ${quoted(reply)}`);
  return found[0];
}

/** The values of those texts that are JSON. */
function* jsonIn(texts: Iterable<string>): Generator<unknown> {
  for (const text of texts) {
    try {
      yield readWhole(text);
    } catch (error) {
      if (!(error instanceof NotJsonError || error instanceof TwiceError)) throw error;
    }
  }
}

/**
 * The objects and arrays in a text. A bracket that begins no JSON stays open until one closes it; what stands inside
 * may be a part of something that was cut off, so that it is no verdict.
 */
function* inside(text: string): Generator<unknown> {
  const bracket = /[[\]{}]/g;
  let open = 0;
  let tries = 0;
  for (let match = bracket.exec(text); match !== null; match = bracket.exec(text)) {
    if (match[0] === "}" || match[0] === "]") {
      open = Math.max(0, open - 1);
      continue;
    }
    tries += 1;
    if (tries > MOST_BRACKETS) throw new NoVerdict(`it is full of brackets, ${quoted(text)}`);
    let found: { value: unknown; end: number };
    try {
      found = readAt(text, match.index);
    } catch (error) {
      if (error instanceof TwiceError) throw new NoVerdict(`the key ${repr(error.key)} stands twice in its JSON`);
      if (!(error instanceof NotJsonError)) throw error;
      open += 1;
      continue;
    }
    if (open > 0) throw new NoVerdict(`its JSON is broken or stands inside other brackets, ${quoted(text)}`);
    bracket.lastIndex = found.end;
    yield found.value;
  }
}

/** What is in the fences of a text. */
function* fenced(text: string): Generator<string> {
  const parts = text.split(FENCE);
  if (parts.length % 2 === 0) return;
  for (let index = 1; index < parts.length; index += 2) {
    const part = parts[index]!;
    const newline = part.indexOf("\n");
    yield newline < 0 ? "" : strip(part.slice(newline + 1));
  }
}

/** What a judge said, in quotes, on one line and not too long. */
function quoted(text: string): string {
  const words = [...strip(text).replace(BLANKS, " ")];
  return words.length > SHOWN ? `${repr(words.slice(0, SHOWN).join(""))} and so on` : repr(words.join(""));
}

/** A text in quotes, spelled as the other SDK spells it: the same question must be the same prompt. */
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
