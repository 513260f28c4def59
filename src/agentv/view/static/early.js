// @ts-check
// Requests what the page of a run needs before anything else is loaded: the rows arrive while the page is built. This
// is not a module but a script of its own, for pages of the server.

{
  /** Replies by address. Each is used once. @type {Map<string, Promise<Response>>} */
  const early = new Map();
  // Only of pages that need them immediately: later, they would be out of date.
  const run = /^#\/run\/([^/?]+)(?:\/case\/[^?]*)?(?:\?|$)/.exec(location.hash)?.[1];
  for (const path of run ? [`/api/run/${run}`, `/api/run/${run}/columns?start=0`] : []) {
    const reply = fetch(path);
    reply.catch(() => {}); // reported when it is used
    early.set(path, reply);
  }
  /** @type {any} */ (globalThis).early = early;
}
