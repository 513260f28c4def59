/** What a handler returns -> the one JSON object on stdout. */

import { isObject, mendHalfCharacters, shown, strictJson } from "./text.js";

const EXPECTED = "return an object with 'score', or a number";

/** A handler returned something that is not a result. */
export class InvalidResultError extends TypeError {}

/** One line of JSON, or `InvalidResultError`. agentv itself clamps a score outside [0, 1]. */
export function encodeResult(value: unknown): string {
  const fields = fieldsOf(value);
  if (fields["score"] === undefined) {
    throw new InvalidResultError(`the result has no 'score', only [${Object.keys(fields).join(", ")}]; ${EXPECTED}`);
  }
  checkScore(fields["score"]);
  const reasoning = fields["reasoning"] ?? "";
  const details = fields["details"] ?? null;
  if (typeof reasoning !== "string") throw new InvalidResultError(`'reasoning' must be text, got ${shown(reasoning)}`);
  if (details !== null && !isObject(details)) {
    throw new InvalidResultError(`'details' must be an object, got ${shown(details)}`);
  }
  const whole = { ...fields, hits: texts("hits", fields), misses: texts("misses", fields), reasoning, details };
  try {
    // A broken character must not cost the score.
    return `${mendHalfCharacters(strictJson(whole))}\n`;
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new InvalidResultError(
      `the result cannot be written as JSON: ${reason}; use lists, objects, text and finite numbers`,
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
      "'score' must be a finite number, got one that is infinite or NaN; check for a division by zero",
    );
  }
}

function texts(name: string, fields: Record<string, unknown>): string[] {
  const value = fields[name] ?? [];
  if (!Array.isArray(value) || !value.every((text) => typeof text === "string")) {
    throw new InvalidResultError(`'${name}' must be a list of texts, got ${shown(value)}`);
  }
  return value;
}
