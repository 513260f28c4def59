// @ts-check
// The data of the local server, which `agentv view` starts.

import { readColumns } from "./packed_columns.js";

/** @typedef {import("./types.js").Source} Source */
/** @typedef {import("./types.js").LiveState} LiveState */

const AHEAD = 4;
const AHEAD_MS = 60_000;
const STOPPED = "The server of this page is not running. Start it again with `agentv view`.";
const LOCKED = "This page has no access to the server any more. Open the link that `agentv view` printed in the terminal.";

/** Replies to what early.js has requested. @type {Map<string, Promise<Response>>} */
const early = /** @type {any} */ (globalThis).early ?? new Map();

/** @implements {Source} */
export class ServerSource {
  constructor() {
    this.kind = /** @type {const} */ ("server");
    this.version = "";
    /** @type {import("./types.js").AboutFile|null} */ this.about = null;
    /** @type {string|null} */ this.first = null; // The link has the address.
    /** @type {(problem: string|null) => void} Called if a followed run cannot be reached, and with null if it can again. */
    this.lost = () => {};
    /** @type {Map<string, {reply: Promise<any>, at: number}>} Details that were requested before their page was opened, oldest first. */
    this.requested = new Map();
  }

  async runs() {
    /** @type {import("./types.js").RunList} */
    const list = await json("/api/runs");
    this.version = list.version;
    return list;
  }

  trend() {
    return json("/api/trend");
  }

  /** @param {string} run */
  run(run) {
    return json(of(run));
  }

  /**
   * @param {string} run
   * @param {number} [start]
   */
  async columns(run, start = 0) {
    const reply = await ask(of(run, `columns?start=${start}`));
    const stopped = () => Promise.reject(new Error(STOPPED));
    const data = await readColumns(/** @type {any} */ (reply.body)).catch(stopped);
    return { ...data, complete: () => data.complete().catch(stopped) };
  }

  /**
   * @param {string} run
   * @param {number} row
   */
  detail(run, row) {
    const path = of(run, `rows/${row}`);
    const ahead = this.requested.get(path);
    this.requested.delete(path);
    return ahead && performance.now() - ahead.at < AHEAD_MS ? ahead.reply.catch(() => json(path)) : json(path);
  }

  /**
   * Request the details of a row that is likely to be opened next. They are used once.
   * @param {string} run
   * @param {number} row
   */
  ahead(run, row) {
    const path = of(run, `rows/${row}`);
    const known = this.requested.get(path);
    if (known && performance.now() - known.at < AHEAD_MS) return;
    const reply = json(path);
    reply.catch(() => {}); // It is requested again when it is needed.
    this.requested.delete(path);
    this.requested.set(path, { reply, at: performance.now() });
    for (const old of this.requested.keys()) if (this.requested.size > AHEAD) this.requested.delete(old);
  }

  /**
   * @param {string} run
   * @param {number} row
   */
  history(run, row) {
    return json(of(run, `history/${row}`));
  }

  /**
   * Rows that contain a text, in upper or lower case. The server stops searching when the request is aborted.
   * @param {string} run
   * @param {string} text
   * @param {AbortSignal} [signal]
   * @param {(share: number) => void} [progress]
   * @returns {Promise<import("./types.js").SearchResult>}
   */
  async search(run, text, signal, progress) {
    try {
      const reply = await ask(of(run, `search?q=${encodeURIComponent(text)}`), signal ? { signal } : {});
      /** @type {number[]|null} */
      let rows = null;
      await eachLine(reply, (line) => {
        const step = JSON.parse(line);
        progress?.(step.share);
        rows = step.rows ?? rows;
      });
      if (rows === null) throw new Error(STOPPED);
      return { rows, complete: true };
    } catch (error) {
      if (signal?.aborted) return { rows: [], complete: false };
      throw error instanceof TypeError ? new Error(STOPPED) : error;
    }
  }

  /**
   * @param {string} a
   * @param {string} b
   */
  compare(a, b) {
    return json(both(a, b));
  }

  /** @param {string} run */
  judges(run) {
    return json(of(run, "judges"));
  }

  async user() {
    /** @type {{user: string}} */
    const { user } = await json("/api/user");
    return user;
  }

  /** @param {string} run */
  labels(run) {
    return json(of(run, "labels"));
  }

  /**
   * @param {string} run
   * @param {import("./types.js").Label} label
   */
  addLabel(run, label) {
    return json(of(run, "labels"), posted(label));
  }

  /**
   * Only visible pages are connected: a browser has few connections for all pages of a server, and those that are open
   * in other tabs would use them up. A page that becomes visible gets the current state.
   * @param {string} run
   * @param {(state: LiveState) => void} changed
   */
  follow(run, changed) {
    /** @type {EventSource|null} */
    let events = null;
    const connect = () => {
      events?.close();
      events = document.hidden ? null : new EventSource(of(run, "events"));
      events?.addEventListener("message", (event) => changed(JSON.parse(event.data)));
      events?.addEventListener("open", () => this.lost(null));
      // The browser tries again on its own. The reason can only be found out with another request.
      events?.addEventListener("error", () => ask(of(run)).catch((error) => this.lost(error.message)));
    };
    document.addEventListener("visibilitychange", connect);
    connect();
    return () => {
      document.removeEventListener("visibilitychange", connect);
      events?.close();
    };
  }
}

/**
 * The path of something of a run.
 * @param {string} run
 * @param {string} [what]
 */
function of(run, what) {
  return `/api/run/${encodeURIComponent(run)}${what === undefined ? "" : `/${what}`}`;
}

/**
 * @param {string} a
 * @param {string} b
 */
function both(a, b) {
  return `/api/compare/${encodeURIComponent(a)}/${encodeURIComponent(b)}`;
}

/**
 * @param {any} body
 * @returns {RequestInit}
 */
function posted(body) {
  // The server requires the header X-Agentv, which pages of other sites cannot send.
  return { method: "POST", headers: { "Content-Type": "application/json", "X-Agentv": "1" }, body: JSON.stringify(body) };
}

/**
 * The reply to a request. Failures become errors whose message can be shown.
 * @param {string} path
 * @param {RequestInit} [options]
 */
async function ask(path, options) {
  let reply;
  try {
    const asked = early.get(path) ?? fetch(path, options);
    early.delete(path);
    reply = await asked;
  } catch (error) {
    throw error instanceof TypeError ? new Error(STOPPED) : error;
  }
  if (reply.ok) return reply;
  if (reply.status === 401) throw new Error(LOCKED);
  const problem = await reply.json().catch(() => null);
  throw new Error(problem?.error ?? `The server answered with an error (${reply.status}).`);
}

/**
 * @param {string} path
 * @param {RequestInit} [options]
 * @returns {Promise<any>}
 */
async function json(path, options) {
  const reply = await ask(path, options);
  return reply.json().catch(() => Promise.reject(new Error(STOPPED)));
}

/**
 * Call `take` with each line of a reply, as it arrives.
 * @param {Response} reply
 * @param {(line: string) => void} take
 */
async function eachLine(reply, take) {
  const reader = reply.body?.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (let part = await reader?.read(); part && !part.done; part = await reader?.read()) {
    const lines = (rest + part.value).split("\n");
    rest = lines.pop() ?? "";
    lines.forEach(take);
  }
}
