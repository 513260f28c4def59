/**
 * Evidence between two lines that it cannot contain: the defence against text that addresses the judge.
 *
 * The runtime and the Python SDK have the same function. `conformance/fences.json` pins all three.
 */

import { createHash } from "node:crypto";

export const MARK_LENGTH = 12;

const CONTROLS = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]+/g;

/**
 * The parts, and their mark: each between a line `--- NAME MARK ---` and a line `--- end of NAME MARK ---`.
 *
 * The mark occurs in no part and in no text of `around`, whatever their case. It is computed from them: the same parts
 * give the same prompt, which caches need, and no author can write a text that contains its own mark.
 */
export function fence(
  parts: readonly (readonly [string, string])[],
  around: readonly string[] = [],
  markLength = MARK_LENGTH,
): { text: string; mark: string } {
  const named = parts.map(([name, text]) => [name.replace(CONTROLS, " "), text] as const);
  const mark = markFor([...around, ...named.flat()], markLength);
  const lines = named.map(([name, text]) => `--- ${name} ${mark} ---\n${text}\n--- end of ${name} ${mark} ---`);
  return { text: lines.join("\n\n"), mark };
}

function markFor(texts: readonly string[], length: number): string {
  // Lengths are in characters, not in UTF-16 units; hashing as UTF-8 makes unpaired surrogates U+FFFD.
  let seed = texts.map((text) => `${[...text].length}:${text}`).join("\0");
  const lower = texts.map((text) => text.toLowerCase());
  for (;;) {
    seed = createHash("sha256").update(seed, "utf8").digest("hex");
    const mark = seed.slice(0, length);
    if (!lower.some((text) => text.includes(mark))) return mark;
  }
}
