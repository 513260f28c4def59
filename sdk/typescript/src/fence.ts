/**
 * Fences evidence between marker lines that it cannot contain, as a defense against prompt injection.
 *
 * The runtime and the Python SDK implement the same function. `conformance/fences.json` keeps all three identical.
 */

import { createHash } from "node:crypto";

export const MARK_LENGTH = 12;

const CONTROLS = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]+/g;

/**
 * The fenced text and its mark. Each part is between `--- NAME MARK ---` and `--- end of NAME MARK ---`.
 *
 * The mark does not occur in any part or in `around`, ignoring case. It is derived from them, so that the same parts
 * always give the same prompt (which caches need) and a text cannot contain its own mark.
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

function markFor(strings: readonly string[], length: number): string {
  // Lengths are in characters, not in UTF-16 units. Hashing as UTF-8 replaces unpaired surrogates by U+FFFD.
  let seed = strings.map((text) => `${[...text].length}:${text}`).join("\0");
  const lower = strings.map((text) => text.toLowerCase());
  for (;;) {
    seed = createHash("sha256").update(seed, "utf8").digest("hex");
    const mark = seed.slice(0, length);
    if (!lower.some((text) => text.includes(mark))) return mark;
  }
}
