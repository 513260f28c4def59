// @ts-check
// Sorting of tables. In the address, `s=cost` is ascending and `s=-cost` descending.

/** The order after a click on the head of a column: ascending, descending, then as before. @param {string} sort @param {string} column */
export function nextSort(sort, column) {
  return sort === column ? `-${column}` : sort === `-${column}` ? null : column;
}

/**
 * Items in the order of their values. Unknown ones (null, NaN, empty) are last in both directions. Numbers that differ by
 * less than a billionth count as equal.
 * @param {ArrayLike<number>} items
 * @param {(item: number) => string|number|null} value
 * @param {boolean} descending
 */
export function sortedBy(items, value, descending) {
  const { length } = items;
  const numbers = new Float64Array(length);
  /** @type {string[]|null} */
  let texts = null;
  for (let i = 0; i < length; i++) {
    const one = value(items[i]);
    if (typeof one === "string") (texts ??= new Array(length).fill(""))[i] = one;
    else numbers[i] = one ?? NaN;
  }
  if (texts) {
    const ranks = new Map([...new Set(texts)].sort().map((text, rank) => [text, text ? rank : NaN]));
    texts.forEach((text, i) => (numbers[i] = ranks.get(text) ?? NaN));
  }
  // The bits of a number, so that they have its order, with its position as the last ones: the browser sorts these ten
  // times as fast as it sorts with a function.
  const [low, high] = new Uint8Array(Uint16Array.of(1).buffer)[0] ? [0, 1] : [1, 0];
  const bits = new Uint32Array(numbers.buffer);
  const place = 2 ** Math.ceil(Math.log2(length + 1)) - 1;
  for (let i = 0; i < length; i++) {
    const one = numbers[i];
    numbers[i] = one !== one ? NaN : descending ? 0 - one : one + 0; // One NaN, and no -0.
    const isNegative = bits[2 * i + high] >>> 31;
    bits[2 * i + high] ^= isNegative ? 0xffffffff : 0x80000000;
    bits[2 * i + low] = ((isNegative ? ~bits[2 * i + low] : bits[2 * i + low]) & ~place) | i;
  }
  new BigUint64Array(numbers.buffer).sort();
  const order = new Uint32Array(length);
  for (let i = 0; i < length; i++) order[i] = items[bits[2 * i + low] & place];
  return order;
}
