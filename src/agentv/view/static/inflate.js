// @ts-check

/** What was deflated. @param {Uint8Array<ArrayBuffer>} bytes */
export function inflated(bytes) {
  const { readable, writable } = new DecompressionStream("deflate-raw");
  const writer = writable.getWriter();
  Promise.all([writer.write(bytes), writer.close()]).catch(() => {}); // The reader gets the error, too.
  return readable;
}

/** Deflated text. @param {Uint8Array<ArrayBuffer>} bytes */
export async function inflatedText(bytes) {
  const reader = inflated(bytes).getReader();
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  let text = "";
  // Not `Response.text`, which waits for the parser of the page between its pieces.
  for (let piece = await reader.read(); !piece.done; piece = await reader.read()) text += decoder.decode(piece.value, { stream: true });
  return text + decoder.decode();
}
