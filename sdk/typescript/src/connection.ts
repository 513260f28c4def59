/**
 * Connections to the judge proxy: each call has a deadline and is never sent twice.
 *
 * This uses `node:http` instead of `fetch` because `fetch` does not report whether a connection was reused, which decides
 * whether resending is safe. It also uses proxy variables if `NODE_USE_ENV_PROXY` is set, decodes bodies on its own, and
 * takes 30 ms to load instead of 3.
 */

import { Agent, request as open, type ClientRequest, type IncomingMessage } from "node:http";
import type { Socket } from "node:net";

import { urlOf, type Access } from "./access.js";
import { JudgeNotAvailableError, JudgeProxyError } from "./errors.js";
import { VERSION } from "./version.js";
import { INFO_REQUEST, parseInfo, type Request, type Response } from "./wire.js";

const MAX_REPLY_BYTES = 256 * 1024 * 1024;
/** How long the proxy may take to say whether calls are waiting. */
const INFO_MS = 5_000;
/** Pause before asking again while a call is waiting. */
const SHORTEST_PAUSE_MS = 250;

export interface Patience {
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
}

/** When a call must have been answered. Waiting for a slot of the judge does not count, so it can move. */
interface Deadline {
  at: number;
  checkedAt: number;
  /** How long calls had waited at that time. */
  knownMs: number;
}

function destroyIt(this: Socket): void {
  this.destroy();
}

/** Keeps connections alive, but drops those that receive unexpected bytes, which must not be taken for a response. */
class QuietAgent extends Agent {
  closed = false;

  constructor() {
    super({ keepAlive: true });
  }

  get hasIdle(): boolean {
    return Object.keys(this.freeSockets).length > 0;
  }

  override keepSocketAlive(socket: Socket): boolean {
    const kept: unknown = super.keepSocketAlive(socket); // its type declaration says void
    if (this.closed || !kept) return false;
    socket.on("data", destroyIt);
    return true;
  }

  override reuseSocket(socket: Socket, request: ClientRequest): void {
    socket.removeListener("data", destroyIt);
    super.reuseSocket(socket, request);
  }

  close(): void {
    this.closed = true;
    this.dropIdle();
  }

  dropIdle(): void {
    for (const sockets of Object.values(this.freeSockets)) for (const socket of sockets ?? []) socket.destroy();
  }
}

/** The server closed an idle connection before it read the request. No byte of a response was received. */
class ClosedWhileIdle extends Error {}

/** The connections of one client. Each call takes an idle one or opens a new one. */
export class Connections {
  readonly #access: Access;
  readonly #agent = new QuietAgent();
  /** How long calls of this script have waited for a slot of the judge, as far as we know. */
  #waitedMs = 0;

  constructor(access: Access) {
    this.#access = access;
  }

  /**
   * Sends one request and reads the complete response before the deadline. The time that calls of this script wait for a
   * slot of the judge is added.
   */
  async exchange(request: Request, patience: Patience): Promise<Response> {
    const started = performance.now();
    const deadline: Deadline = { at: started + patience.timeoutMs, checkedAt: started, knownMs: this.#waitedMs };
    if (this.#agent.hasIdle) await eventsUntilNow();
    patience.signal?.throwIfAborted();
    try {
      return await this.#send(request, deadline, patience);
    } catch (error) {
      // Otherwise do not resend: the call may already have been made and billed.
      if (!(error instanceof ClosedWhileIdle)) throw error;
    }
    return await this.#send(request, deadline, patience, { fresh: true });
  }

  #send(request: Request, deadline: Deadline, patience: Patience, { fresh = false } = {}): Promise<Response> {
    return new Promise((resolve, reject) => {
      const { host, port } = this.#access;
      const headers = this.#headers(request);
      const options = { agent: this.#agent, host, port, path: request.path, method: request.method, headers };
      if (fresh) this.#agent.dropIdle();
      const call = open({ ...options, insecureHTTPParser: false });
      let socket: Socket | undefined;
      let before = 0;
      let responding = request.body === undefined; // only calls wait for a slot
      let ended = false;
      const end = (settle: () => void): void => {
        ended = true;
        clearTimeout(timer);
        patience.signal?.removeEventListener("abort", abort);
        settle();
      };
      const fail = (error: unknown): void => {
        end(() => reject(error));
        call.destroy();
      };
      const late = async (): Promise<void> => {
        const pause = responding ? 0 : await this.#later(deadline, patience.timeoutMs);
        if (ended) return;
        if (pause <= 0 || responding) fail(tooLate(patience.timeoutMs));
        else timer = setTimeout(late, pause);
      };
      let timer = setTimeout(late, Math.max(0, deadline.at - performance.now()));
      const abort = (): void => fail(patience.signal?.reason);
      patience.signal?.addEventListener("abort", abort, { once: true });
      call.on("socket", (taken: Socket) => {
        socket = taken;
        before = taken.bytesRead;
      });
      call.on("error", (error: NodeJS.ErrnoException) => {
        const silent = (socket?.bytesRead ?? 0) === before;
        if (call.reusedSocket && silent && isHangUp(error)) fail(new ClosedWhileIdle());
        else fail(error.syscall === "connect" ? this.#unreachable(error) : lost(error));
      });
      call.on("upgrade", (answer: IncomingMessage) => {
        fail(lost(Object.assign(new Error(`HTTP ${answer.statusCode}`), { code: "HPE_UPGRADE" })));
      });
      call.on("response", (answer) => {
        responding = true;
        readAll(answer, fail, (body) => {
          end(() => resolve({ status: answer.statusCode ?? 0, body, encoding: answer.headers["content-encoding"] }));
          // A server may reject a request (413, 401) before reading all of it; do not send the rest.
          if (!call.writableFinished) call.destroy();
        });
      });
      call.end(request.body);
    });
  }

  /** Moves a deadline that has passed by the time that calls have waited since the last check. The milliseconds left. */
  async #later(deadline: Deadline, timeoutMs: number): Promise<number> {
    let info;
    try {
      info = parseInfo(await this.exchange(INFO_REQUEST, { timeoutMs: Math.min(INFO_MS, timeoutMs) }));
    } catch {
      return 0;
    }
    const now = performance.now();
    // The client may not know of earlier waits, but this call has not waited longer than since the last check.
    const waited = Math.min(info.waitedMs - deadline.knownMs, now - deadline.checkedAt);
    deadline.knownMs = this.#waitedMs = info.waitedMs;
    deadline.checkedAt = now;
    deadline.at += Math.max(0, waited);
    return Math.max(deadline.at - now, info.waitingCalls > 0 ? SHORTEST_PAUSE_MS : 0);
  }

  #headers(request: Request): Record<string, string | number> {
    return {
      Authorization: `Bearer ${this.#access.token}`,
      Accept: "application/json",
      "User-Agent": `agentv-eval-typescript/${VERSION}`,
      ...(request.body && { "Content-Type": "application/json", "Content-Length": request.body.length }),
    };
  }

  #unreachable(error: Error): JudgeProxyError {
    return new JudgeNotAvailableError(
      `cannot connect to the judge proxy at ${urlOf(this.#access)}: ${error.message}. It runs only while the script ` +
        "that agentv started is running; call it before that script ends",
      { code: "unreachable", cause: error },
    );
  }

  /** Closes idle connections now, and the others when their calls have ended. */
  close(): void {
    this.#agent.close();
  }
}

/** Processes pending socket events, so that closed idle connections and those with stray bytes are not reused. */
async function eventsUntilNow(): Promise<void> {
  // The first turn may end before the event loop polls its sockets; the second runs after that.
  for (let turn = 0; turn < 2; turn++) await new Promise((resolve) => setImmediate(resolve));
}

function readAll(answer: IncomingMessage, fail: (error: unknown) => void, done: (body: Buffer) => void): void {
  const chunks: Buffer[] = [];
  let size = 0;
  answer.on("data", (chunk: Buffer) => {
    chunks.push(chunk);
    size += chunk.length;
    if (size > MAX_REPLY_BYTES) {
      const error = new Error(`it is longer than ${MAX_REPLY_BYTES} bytes`);
      fail(lost(Object.assign(error, { code: "HPE_TOO_LONG" })));
    }
  });
  answer.on("error", (error) => fail(lost(error, { answering: true })));
  answer.on("end", () => done(Buffer.concat(chunks)));
}

function isHangUp(error: NodeJS.ErrnoException): boolean {
  return error.code === "ECONNRESET" && error.syscall === undefined;
}

function lost(error: NodeJS.ErrnoException, { answering = false } = {}): JudgeProxyError {
  const isCut = answering || error.code === "HPE_INVALID_EOF_STATE";
  const isNotHttp = !isCut && error.code?.startsWith("HPE_") === true;
  const what = isNotHttp
    ? "the response of the judge proxy is not valid HTTP"
    : `the judge proxy closed the connection ${isCut ? "in the middle of its response" : "before it responded"}`;
  return new JudgeProxyError(
    `${what} (${error.message}). The call may have been counted and was not retried. See the log of the agentv run`,
    { code: isNotHttp ? "invalid_reply" : "connection_lost", cause: error },
  );
}

function tooLate(timeoutMs: number): JudgeProxyError {
  return new JudgeProxyError(
    `the judge proxy did not respond within ${timeoutMs / 1000} s. The call may have been counted and was not ` +
      "retried. For slow judges, raise the timeout: createJudgeProxyClient({ timeoutMs: ... })",
    { code: "client_timeout" },
  );
}
