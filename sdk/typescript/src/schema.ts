/** The subset of JSON Schema that verdicts support. Other keywords are rejected. */

import { didYouMean } from "./errors.js";
import { repr } from "./reading.js";
import { isObject } from "./text.js";

type TypeName = "object" | "array" | "string" | "number" | "integer" | "boolean" | "null";

/** A schema for a verdict. Only these keywords are supported. */
export interface VerdictSchema {
  readonly type?: TypeName | readonly TypeName[];
  readonly properties?: Readonly<Record<string, VerdictSchema>>;
  readonly required?: readonly string[];
  readonly items?: VerdictSchema;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly minItems?: number;
  readonly maxItems?: number;
}

const IS_A: Readonly<Record<TypeName, (value: unknown) => boolean>> = {
  object: isObject,
  array: Array.isArray,
  string: (value) => typeof value === "string",
  number: (value) => typeof value === "number",
  integer: (value) => Number.isInteger(value),
  boolean: (value) => typeof value === "boolean",
  null: (value) => value === null,
};
const TYPES = Object.keys(IS_A);
const SHOWN = 60;

/** For each keyword, whether a value is valid, and the expected value for the error message. */
const KEYWORDS: Readonly<Record<keyof VerdictSchema, readonly [(value: unknown) => boolean, string]>> = {
  type: [isTypes, `one of ${TYPES.join(", ")}, or a list of them`],
  properties: [isObject, "an object"],
  required: [(value) => Array.isArray(value) && value.every(IS_A.string), "a list of strings"],
  items: [isObject, "an object"],
  enum: [(value) => Array.isArray(value) && value.length > 0, "a non-empty list"],
  const: [() => true, "anything"],
  minimum: [IS_A.number, "a number"],
  maximum: [IS_A.number, "a number"],
  minItems: [isCount, "an integer of at least 0"],
  maxItems: [isCount, "an integer of at least 0"],
};

function isTypes(value: unknown): boolean {
  const names: unknown[] = Array.isArray(value) ? value : [value];
  return names.length > 0 && names.every((name) => TYPES.includes(name as string));
}

function isCount(value: unknown): boolean {
  return Number.isInteger(value) && (value as number) >= 0;
}

/** The first problem of a schema, or `undefined` if every keyword is supported and has a valid value. */
export function checkSchema(schema: unknown, where = "schema"): string | undefined {
  if (!isObject(schema)) return `${where} must be an object like {type: "object"}, got ${written(schema, SHOWN)}`;
  const known = Object.keys(KEYWORDS);
  for (const [keyword, value] of Object.entries(schema)) {
    if (!Object.hasOwn(KEYWORDS, keyword)) {
      const hint = didYouMean(keyword, known);
      return `${where} has an unknown keyword '${keyword}'${hint} supported: ${known.join(", ")}`;
    }
    const [fits, expected] = KEYWORDS[keyword as keyof VerdictSchema];
    if (!fits(value)) return `${where}.${keyword} must be ${expected}, got ${written(value, SHOWN)}`;
  }
  for (const [name, part] of Object.entries(schema["properties"] ?? {})) {
    const problem = checkSchema(part, `${where}.properties.${name}`);
    if (problem !== undefined) return problem;
  }
  return "items" in schema ? checkSchema(schema["items"], `${where}.items`) : undefined;
}

/** Where and why a JSON value does not match a valid schema, or `undefined` if it matches. */
export function misfit(value: unknown, schema: VerdictSchema, where = ""): string | undefined {
  const named = where || "the value";
  const problem = kindMisfit(value, schema) ?? sizeMisfit(value, schema);
  if (problem !== undefined) return `${named} ${problem}`;
  if (isObject(value)) {
    const missing = schema.required?.find((name) => !Object.hasOwn(value, name));
    if (missing !== undefined) return `${named} has no ${repr(missing)}`;
    for (const [name, part] of Object.entries(schema.properties ?? {})) {
      if (!Object.hasOwn(value, name)) continue;
      const inner = misfit(value[name], part, where ? `${where}.${name}` : name);
      if (inner !== undefined) return inner;
    }
  } else if (Array.isArray(value) && schema.items !== undefined) {
    for (const [index, item] of value.entries()) {
      const inner = misfit(item, schema.items, `${where}[${index}]`);
      if (inner !== undefined) return inner;
    }
  }
  return undefined;
}

function kindMisfit(value: unknown, schema: VerdictSchema): string | undefined {
  const names = typeof schema.type === "string" ? [schema.type] : schema.type;
  const got = `is ${written(value, SHOWN)}, expected`;
  if (names !== undefined && !names.some((name) => IS_A[name](value))) return `${got} ${names.join(" or ")}`;
  if (schema.enum !== undefined && !schema.enum.some((one) => same(value, one))) {
    return `${got} one of ${schema.enum.map((one) => written(one, SHOWN)).join(", ")}`;
  }
  if ("const" in schema && !same(value, schema.const)) return `${got} ${written(schema.const, SHOWN)}`;
  return undefined;
}

function sizeMisfit(value: unknown, schema: VerdictSchema): string | undefined {
  const { minimum, maximum, minItems, maxItems } = schema;
  if (typeof value === "number") {
    if (minimum !== undefined && value < minimum) return `is ${value}, less than the minimum ${minimum}`;
    if (maximum !== undefined && value > maximum) return `is ${value}, greater than the maximum ${maximum}`;
  }
  if (Array.isArray(value)) {
    if (minItems !== undefined && value.length < minItems) {
      return `has ${value.length} items, expected at least ${minItems}`;
    }
    if (maxItems !== undefined && value.length > maxItems) {
      return `has ${value.length} items, expected at most ${maxItems}`;
    }
  }
  return undefined;
}

/** JSON equality. */
function same(one: unknown, other: unknown): boolean {
  if (Array.isArray(one) && Array.isArray(other)) {
    return one.length === other.length && one.every((item, index) => same(item, other[index]));
  }
  if (isObject(one) && isObject(other)) {
    const names = Object.keys(one);
    return (
      names.length === Object.keys(other).length &&
      names.every((name) => Object.hasOwn(other, name) && same(one[name], other[name]))
    );
  }
  return one === other;
}

/** JSON with a space after each comma and colon, as in Python, truncated to `length` characters. */
export function written(value: unknown, length = Infinity): string {
  const text = spaced(value);
  const signs = text.length > length ? [...text] : [];
  return signs.length > length ? `${signs.slice(0, length).join("")}...` : text;
}

function spaced(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(spaced).join(", ")}]`;
  if (isObject(value)) {
    return `{${Object.entries(value)
      .map(([name, item]) => `${JSON.stringify(name)}: ${spaced(item)}`)
      .join(", ")}}`;
  }
  return JSON.stringify(value) ?? String(value);
}
