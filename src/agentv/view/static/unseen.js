// @ts-check
// Characters that cannot be seen, or that change the direction of others, are inside a mark that shows their number.
// The text of the nodes is still exactly the text that was given. `dom.js` does this for all text of all elements.

/** Characters that cannot be seen. Line breaks and tabs can; so can the joiners inside emoji. */
const UNSEEN =
  /(?:(?![\n\t])[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\p{Co}\u115F\u1160\u17B4\u17B5\u3164\uFFA0\u034F\uFFF0-\uFFFF\u{E0100}-\u{E01EF}]|(?!(?<=\p{Extended_Pictographic}\uFE0F?|\p{Emoji_Modifier})\u200D\p{Extended_Pictographic})\p{Cf}|(?<![\p{Emoji}\p{Extended_Pictographic}])[\uFE00-\uFE0F])+|[\u00A0\u1680\u2000-\u200A\u202F\u205F\u3000]/gu;
const SPACE = /\p{Zs}/u;
const PRINTABLE = /^[\n\t -~]*$/;

/** Whether all characters of a text are those of most keyboards, which can be seen. @param {string} text */
export const isPlain = (text) => PRINTABLE.test(text);

/** `U+200B U+202E … 7 characters`. @param {string} run */
function numbers(run) {
  const all = [...run];
  const first = all.slice(0, 3).map((character) => `U+${character.codePointAt(0)?.toString(16).toUpperCase().padStart(4, "0")}`);
  return first.join(" ") + (all.length > 3 ? ` … ${all.length} characters` : "");
}

/**
 * The nodes of a text. Without `spaces`, spaces that look like others are not marked.
 * @param {string} text
 * @param {boolean} spaces
 * @returns {(Node|string)[]}
 */
export function marked(text, spaces) {
  if (PRINTABLE.test(text)) return [text];
  /** @type {(Node|string)[]} */
  const nodes = [];
  let end = 0;
  for (const { 0: run, index } of text.matchAll(UNSEEN)) {
    const isSpace = SPACE.test(run);
    if (isSpace && !spaces) continue;
    // The characters are still the text of the mark, so that they can be copied.
    const mark = document.createElement("span");
    mark.textContent = run;
    mark.className = isSpace ? "unseen-space" : "unseen";
    mark.title = mark.dataset.shown = numbers(run);
    nodes.push(text.slice(end, index), mark);
    end = index + run.length;
  }
  nodes.push(text.slice(end));
  return nodes;
}

/**
 * A text in which characters that cannot be seen are written as their numbers, for places where a mark cannot be.
 * @param {string} text
 */
export function spelled(text) {
  return PRINTABLE.test(text) ? text : text.replace(UNSEEN, (run) => (SPACE.test(run) ? run : numbers(run)));
}
