/** Converts the return value of a handler into the JSON object printed to stdout. */

import { isObject, replaceHalfCharacters, shown, strictJson } from "./text.js";

const ROUNDING_NOISE = 1e-6;
const EXPECTED = "return an object with 'score', or a number";

/** A handler returned an invalid result. */
export class InvalidResultError extends TypeError {}

/** The result as one line of JSON. Throws InvalidResultError for a score outside 0 to 1. */
export function encodeResult(value: unknown): string {
  const fields = fieldsOf(value);
  if (fields["score"] === undefined) {
    throw new InvalidResultError(`the result has no 'score', only [${Object.keys(fields).join(", ")}]; ${EXPECTED}`);
  }
  const score = validScore(fields["score"]);
  const reasoning = fields["reasoning"] ?? "";
  const details = fields["details"] ?? null;
  if (typeof reasoning !== "string") throw new InvalidResultError(`'reasoning' must be a string, got ${shown(reasoning)}`);
  if (details !== null && !isObject(details)) {
    throw new InvalidResultError(`'details' must be an object, got ${shown(details)}`);
  }
  const whole = { ...fields, score, hits: strings("hits", fields), misses: strings("misses", fields), reasoning, details };
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

/** The score, without rounding noise. A score on another scale is an error, never clamped. */
function validScore(score: unknown): number {
  if (typeof score !== "number") {
    throw new InvalidResultError(`score must be a number from 0 to 1, got ${shown(score)}`);
  }
  if (!Number.isFinite(score)) {
    throw new InvalidResultError(
      "score must be a finite number from 0 to 1, got infinity or NaN; check for a division by zero",
    );
  }
  if (score < -ROUNDING_NOISE || score > 1 + ROUNDING_NOISE) {
    const advice = score > 1 ? "divide by the maximum of your scale" : "map your scale to 0 (worst) to 1 (best)";
    throw new InvalidResultError(`score must be between 0 and 1, got ${score}; ${advice}`);
  }
  return Math.min(1, Math.max(0, score));
}

function strings(name: string, fields: Record<string, unknown>): string[] {
  const value = fields[name] ?? [];
  if (!Array.isArray(value) || !value.every((text) => typeof text === "string")) {
    throw new InvalidResultError(`'${name}' must be a list of strings, got ${shown(value)}`);
  }
  return value;
}
