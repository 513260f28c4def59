// @ts-check
// Addresses: everything after # names a page and its state, so that links work in the file, too.
//   #/run/20261116-120000-abc/case/suite/eval-id/target/1?evaluator=precision

/**
 * @typedef {Object} Place
 * @property {string[]} parts Decoded parts of the path.
 * @property {Record<string, string>} query
 */

/**
 * The address of a page: `address(["run", id], {f: "score<0.6"})`. Empty values are left out.
 * @param {(string|number)[]} parts
 * @param {Record<string, string|number|boolean|null|undefined>} [query]
 */
export function address(parts, query = {}) {
  const path = parts.map((part) => encodePart(String(part))).join("/");
  const pairs = Object.entries(query)
    .flatMap(([name, value]) => (value || value === 0 ? [`${encoded(name)}=${encoded(value)}`] : []));
  return `#/${path}${pairs.length ? `?${pairs.join("&")}` : ""}`;
}

/** An empty part, and parts that browsers would resolve, are marked. @param {string} part */
function encodePart(part) {
  return part === "" || part === "." || part === ".." ? `~${part}` : encoded(part).replace(/^~/, "~~");
}

/** A lone surrogate cannot be encoded. @param {string|number|boolean} text */
function encoded(text) {
  return encodeURIComponent(String(text).toWellFormed());
}

/** @param {string} text */
function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/**
 * @param {string} hash
 * @returns {Place}
 */
export function placeOf(hash) {
  const [path, search = ""] = hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  /** @type {Record<string, string>} */
  const query = Object.create(null);
  for (const pair of search.split("&").filter(Boolean)) {
    const [name, value = ""] = pair.split(/=(.*)/s);
    query[decode(name)] = decode(value);
  }
  return { parts: path === "" ? [] : path.split("/").map((part) => decode(part.replace(/^~/, ""))), query };
}

/** The current place. */
export function here() {
  return placeOf(location.hash);
}

/**
 * Go to an address. With `replace`, the back button does not return to the current one.
 * @param {string} to
 * @param {{replace?: boolean}} [options]
 */
export function go(to, { replace = false } = {}) {
  if (to === location.hash) return;
  if (replace) {
    history.replaceState(history.state, "", to);
    dispatchEvent(new HashChangeEvent("hashchange"));
  } else {
    location.hash = to;
  }
}
