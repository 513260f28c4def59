/** A strict JSON parser that can start anywhere in a string and rejects duplicate keys, unlike `JSON.parse`. */

const DEEPEST = 500;
const BLANKS = /[ \t\n\r]*/y;
const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
const STRING = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;
const WORDS = [
  ["true", true],
  ["false", false],
  ["null", null],
] as const;

/** The input is not valid JSON. */
export class NotJsonError extends Error {}

/** The input is JSON, but an object has a duplicate key. */
export class TwiceError extends Error {
  constructor(readonly key: string) {
    super(`duplicate key ${JSON.stringify(key)}`);
  }
}

/** Parses a string that contains only one JSON value. */
export function readWhole(text: string): unknown {
  const reader = new Reader(text, 0);
  const value = reader.value(0);
  reader.skip(BLANKS);
  if (reader.at !== text.length) throw new NotJsonError("text after the value");
  return value;
}

/** Parses the JSON value that starts at an index. Returns the value and the index of its end. */
export function readAt(text: string, start: number): { value: unknown; end: number } {
  const reader = new Reader(text, start);
  return { value: reader.value(0), end: reader.at };
}

class Reader {
  constructor(
    readonly text: string,
    public at: number,
  ) {}

  value(depth: number): unknown {
    this.skip(BLANKS);
    if (depth > DEEPEST) throw new NotJsonError("nested too deeply");
    const first = this.text[this.at];
    if (first === "{") return this.object(depth + 1);
    if (first === "[") return this.array(depth + 1);
    if (first === '"') return this.string();
    for (const [word, value] of WORDS) {
      if (this.text.startsWith(word, this.at)) {
        this.at += word.length;
        return value;
      }
    }
    const number = Number(this.skip(NUMBER) || "no");
    if (!Number.isFinite(number)) throw new NotJsonError("no value, or a number too large");
    return number;
  }

  object(depth: number): Record<string, unknown> {
    const fields = new Map<string, unknown>();
    let twice: string | undefined;
    this.at++;
    if (!this.ends("}")) {
      do {
        this.skip(BLANKS);
        const key = this.string();
        this.expect(":");
        if (fields.has(key)) twice ??= key;
        fields.set(key, this.value(depth));
      } while (this.goesOn("}"));
    }
    if (twice !== undefined) throw new TwiceError(twice);
    return Object.fromEntries(fields);
  }

  array(depth: number): unknown[] {
    const items: unknown[] = [];
    this.at++;
    if (!this.ends("]")) {
      do items.push(this.value(depth));
      while (this.goesOn("]"));
    }
    return items;
  }

  string(): string {
    const written = this.skip(STRING);
    if (written === "") throw new NotJsonError("no string in double quotes");
    return JSON.parse(written) as string;
  }

  /** Consumes and returns the match of a sticky expression at the current index. */
  skip(expression: RegExp): string {
    expression.lastIndex = this.at;
    const found = expression.exec(this.text)?.[0] ?? "";
    this.at += found.length;
    return found;
  }

  ends(bracket: string): boolean {
    this.skip(BLANKS);
    if (this.text[this.at] !== bracket) return false;
    this.at++;
    return true;
  }

  expect(sign: string): void {
    if (!this.ends(sign)) throw new NotJsonError(`no ${sign}`);
  }

  /** Whether another item follows. */
  goesOn(bracket: string): boolean {
    if (this.ends(bracket)) return false;
    this.expect(",");
    return true;
  }
}
