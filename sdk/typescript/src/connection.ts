/**
 * Connections to the judge proxy, with a deadline per call and a strict rule about sending twice.
 *
 * `node:http` and not `fetch`: fetch does not say whether a request travelled on a connection that was idle before, so
 * the rule could not be kept; it follows the proxy variables where Node is told to (`NODE_USE_ENV_PROXY`), which an
 * agent of our own never does; it decodes bodies nobody asked to be encoded; and loading it takes 30 ms, not 3.
 */

import { Agent, request as open, type ClientRequest, type IncomingMessage } from "node:http";
import type { Socket } from "node:net";

import { urlOf, type Access } from "./access.js";
import { JudgeNotAvailableError, JudgeProxyError } from "./errors.js";
import { VERSION } from "./version.js";
import type { Request, Response } from "./wire.js";

const MAX_REPLY_BYTES = 256 * 1024 * 1024;

export interface Patience {
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
}

function destroyIt(this: Socket): void {
  this.destroy();
}

/** Keeps connections alive, but none that received bytes nobody had asked for: they are no answer to a later call. */
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

/** The server closed an idle connection while the request was on its way; not a byte of an answer came. */
class ClosedWhileIdle extends Error {}

/** The connections of one client: a call takes an idle one or opens one. */
export class Connections {
  readonly #access: Access;
  readonly #agent = new QuietAgent();

  constructor(access: Access) {
    this.#access = access;
  }

  /** Send one request and read the whole answer, in time. */
  async exchange(request: Request, patience: Patience): Promise<Response> {
    const deadline = performance.now() + patience.timeoutMs;
    if (this.#agent.hasIdle) await eventsUntilNow();
    patience.signal?.throwIfAborted();
    try {
      return await this.#send(request, deadline, patience);
    } catch (error) {
      // On a new connection, or after one byte of an answer, the call may have been made and paid for: never sent
      // twice then.
      if (!(error instanceof ClosedWhileIdle)) throw error;
    }
    return await this.#send(request, deadline, patience, { fresh: true });
  }

  #send(request: Request, deadline: number, patience: Patience, { fresh = false } = {}): Promise<Response> {
    return new Promise((resolve, reject) => {
      const { host, port } = this.#access;
      const headers = this.#headers(request);
      const options = { agent: this.#agent, host, port, path: request.path, method: request.method, headers };
      if (fresh) this.#agent.dropIdle();
      const call = open({ ...options, insecureHTTPParser: false });
      let socket: Socket | undefined;
      let before = 0;
      const end = (settle: () => void): void => {
        clearTimeout(timer);
        patience.signal?.removeEventListener("abort", abort);
        settle();
      };
      const fail = (error: unknown): void => {
        end(() => reject(error));
        call.destroy();
      };
      const timer = setTimeout(() => fail(tooLate(patience.timeoutMs)), Math.max(0, deadline - performance.now()));
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
        readAll(answer, fail, (body) => {
          end(() => resolve({ status: answer.statusCode ?? 0, body, encoding: answer.headers["content-encoding"] }));
          // A server may refuse a request (413, 401) before it has read all of it: nobody wants the rest.
          if (!call.writableFinished) call.destroy();
        });
      });
      call.end(request.body);
    });
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
      `nobody answers at ${urlOf(this.#access)} (${error.message}): the judge proxy lives only while the script that ` +
        "agentv started is running; call it before that script ends",
      { code: "unreachable", cause: error },
    );
  }

  /** Close the idle connections, and each of the others when its call has ended. */
  close(): void {
    this.#agent.close();
  }
}

/** Let whatever has arrived be seen: an idle connection that ended, or got stray bytes, must not carry a call. */
async function eventsUntilNow(): Promise<void> {
  // The first turn may end before the loop looks at its sockets; the second comes after.
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
    ? "the answer of the judge proxy is not HTTP"
    : `the judge proxy closed the connection ${isCut ? "in the middle of its answer" : "before it answered"}`;
  return new JudgeProxyError(
    `${what} (${error.message}). The call may have been counted and was not sent again; see the log of the agentv run`,
    { code: isNotHttp ? "invalid_reply" : "connection_lost", cause: error },
  );
}

function tooLate(timeoutMs: number): JudgeProxyError {
  return new JudgeProxyError(
    `no complete answer of the judge proxy within ${timeoutMs / 1000} s. The call may have been counted and was not ` +
      "sent again; give slow judges more time with createJudgeProxyClient({ timeoutMs: ... })",
    { code: "client_timeout" },
  );
}
