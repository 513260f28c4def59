// @ts-check
// What a filter can become with the next name, value or word.

import { Filter, condition, fieldName, parseFilter } from "./filter.js";
import { FIELDS, fieldOf } from "./filter_fields.js";

/** @typedef {import("./run_model.js").RunModel} RunModel */

const MOST = 100;
/** What is before the last word, its name and its operator. */
const LAST = /^(.*?)([^\s()=!<>~"]*(?:\."[^"]*")?)(?:(==?|!=|~)(?:"[^"]*|[^\s()"]*))?$/s;

/**
 * Whole filters that begin with a text, and what they mean.
 * @param {string} text
 * @param {RunModel} model
 * @returns {[string, string][]}
 */
export function completions(text, model) {
  const [, start, written, operator] = /** @type {string[]} */ (LAST.exec(text));
  const name = written.replace(/"/g, "");
  /** @type {[string, string][]} */
  let endings;
  if (operator) {
    const [field, key] = fieldOf(name);
    const values = field === FIELDS["metadata."] ? Object.hasOwn(model.metadata, key) && model.metadata[key] : field?.values?.(model);
    endings = (field?.isText && values ? values : []).map((value) => [condition(name, value, operator), ""]);
  } else if (start.trim() && parseFilter(start) instanceof Filter) {
    endings = [["and ", ""], ["or ", ""]];
  } else {
    endings = Object.entries(FIELDS).flatMap(([field, { about, values }]) => (field.endsWith(".") ? (values?.(model) ?? []).map((rest) => fieldName(field + rest)) : [field]).map((one) => /** @type {[string, string]} */ ([one, about])));
  }
  return endings.slice(0, MOST).map(([ending, about]) => [start + ending, about]);
}
