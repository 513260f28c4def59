/** JSON read strictly, from any place of a text: `JSON.parse` takes a key that stands twice, and whole texts only. */

const DEEPEST = 500;
const BLANKS = /[ \t\n\r]*/y;
const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
const STRING = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;
const WORDS = [
  ["true", true],
  ["false", false],
  ["null", null],
] as const;

/** What was read is no JSON. */
export class NotJsonError extends Error {}

/** It is JSON, but a key stands twice in an object. */
export class TwiceError extends Error {
  constructor(readonly key: string) {
    super(`the key ${JSON.stringify(key)} stands twice`);
  }
}

/** The value of a text that is nothing but JSON. */
export function readWhole(text: string): unknown {
  const reader = new Reader(text, 0);
  const value = reader.value(0);
  reader.skip(BLANKS);
  if (reader.at !== text.length) throw new NotJsonError("text after the value");
  return value;
}

/** The value that begins at a place, and where it ends. */
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
    if (depth > DEEPEST) throw new NotJsonError("nested too deep");
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
    if (written === "") throw new NotJsonError("no text in double quotes");
    return JSON.parse(written) as string;
  }

  /** What a sticky expression matches here; the place moves behind it. */
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

  /** After an item: whether another follows. */
  goesOn(bracket: string): boolean {
    if (this.ends(bracket)) return false;
    this.expect(",");
    return true;
  }
}
