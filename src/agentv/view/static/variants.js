// @ts-check
// Variants: a target with a prompt. Rows are identified by them, and a comparison may be one of two prompts of a run.

/** @typedef {import("./run_model.js").RunModel} RunModel */

/** The name of a variant. @param {string} name A target, or a run. @param {string|null|undefined} prompt */
export function variantOf(name, prompt) {
  return prompt == null ? name : `${name} [${prompt}]`;
}

/**
 * The targets (0) or the prompts (1) of a run, and the number of that of each variant, -1 without one.
 * @param {RunModel} model
 * @param {0|1} part
 */
export function variantParts(model, part) {
  const parts = model.variants.map((variant) => variant[part]);
  const values = [...new Set(parts)].filter((one) => one !== null);
  const order = part ? (model.info.prompts ?? []) : [];
  values.sort((one, other) => order.indexOf(one) - order.indexOf(other));
  return { values, of: parts.map((one) => (one === null ? -1 : values.indexOf(one))) };
}

/**
 * A side of a comparison: a run, or one of its prompts.
 * @template {{address: string}} Head
 * @param {string} written As in an address: `RUN` or `RUN [prompt]`.
 * @param {Head[]} runs
 */
export function sideOf(written, runs) {
  const find = (/** @type {string|undefined} */ run) => runs.find((head) => head.address === run);
  const [, run, prompt] = /^(.*) \[([^[\]]*)\]$/s.exec(written) ?? [];
  const whole = find(written);
  return whole || !find(run) ? { head: whole, run: written, prompt: null } : { head: find(run), run, prompt };
}
