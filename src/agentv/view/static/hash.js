// @ts-check
// The hash of an answer, which a label contains: see agentv/record/human_labels.py.

/** SHA-256 of a text as UTF-8, in hexadecimal digits. @param {string} text */
export async function sha256(text) {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
