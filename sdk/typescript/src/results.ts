/** Converts the return value of a handler into the JSON object printed to stdout. */

import { isObject, replaceHalfCharacters, shown, strictJson } from "./text.js";

const EXPECTED = "return an object with 'score', or a number";

/** A handler returned an invalid result. */
export class InvalidResultError extends TypeError {}

/** The result as one line of JSON. Scores outside [0, 1] are clamped by agentv, not here. */
export function encodeResult(value: unknown): string {
  const fields = fieldsOf(value);
  if (fields["score"] === undefined) {
    throw new InvalidResultError(`the result has no 'score', only [${Object.keys(fields).join(", ")}]; ${EXPECTED}`);
  }
  checkScore(fields["score"]);
  const reasoning = fields["reasoning"] ?? "";
  const details = fields["details"] ?? null;
  if (typeof reasoning !== "string") throw new InvalidResultError(`'reasoning' must be a string, got ${shown(reasoning)}`);
  if (details !== null && !isObject(details)) {
    throw new InvalidResultError(`'details' must be an object, got ${shown(details)}`);
  }
  const whole = { ...fields, hits: strings("hits", fields), misses: strings("misses", fields), reasoning, details };
  try {
    // One broken character must not lose the score.
    return `${replaceHalfCharacters(strictJson(whole))}\n`;
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new InvalidResultError(
      `the result cannot be serialized as JSON: ${reason}; use lists, objects, strings and finite numbers`,
      { cause: error },
    );
  }
}

function fieldsOf(value: unknown): Record<string, unknown> {
  if (isObject(value)) return value;
  if (typeof value === "number" || typeof value === "boolean") return { score: value };
  const got = value === null || value === undefined ? "nothing" : shown(value);
  throw new InvalidResultError(`the handler returned ${got}; ${EXPECTED}`);
}

function checkScore(score: unknown): void {
  if (typeof score !== "number") {
    throw new InvalidResultError(`'score' must be a number, got ${shown(score)} (${typeof score})`);
  }
  if (!Number.isFinite(score)) {
    throw new InvalidResultError(
      "'score' must be a finite number, got infinity or NaN; check for a division by zero",
    );
  }
}

function strings(name: string, fields: Record<string, unknown>): string[] {
  const value = fields[name] ?? [];
  if (!Array.isArray(value) || !value.every((text) => typeof text === "string")) {
    throw new InvalidResultError(`'${name}' must be a list of strings, got ${shown(value)}`);
  }
  return value;
}
