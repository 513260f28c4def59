/** The judge client. */

import { readAccess, urlOf, type Access, type Environment } from "./access.js";
import type { Connections } from "./connection.js";
import { JudgeNotAvailableError } from "./errors.js";
import type { JudgeInfo, JudgeReply, JudgeRequest } from "./values.js";
import type { Asker, ChoiceForm, SchemaForm, VerdictQuestion } from "./verdicts.js";
import type * as Wire from "./wire.js";

export const DEFAULT_TIMEOUT_MS = 120_000;
const LONGEST_TIMEOUT_MS = 2 ** 31 - 1;

export interface JudgeProxyClientOptions {
  /** Timeout per call in milliseconds (default: 120,000). Waiting for a slot of the judge does not count. */
  timeoutMs?: number | undefined;
  /** Environment variables (default: `process.env`). */
  env?: Environment | undefined;
}

export interface CallOptions {
  /** Aborts the call and closes its connection. The call may have been counted. */
  signal?: AbortSignal | undefined;
}

/**
 * A client for the judge that agentv gives this script access to, or `undefined` if judge access is off.
 *
 * Throws `JudgeNotAvailableError` if the environment contains the URL of a proxy without a token, or a URL that is not on
 * this machine.
 */
export function createJudgeProxyClient(options: JudgeProxyClientOptions = {}): JudgeProxyClient | undefined {
  const timeoutMs = checkedTimeout(options.timeoutMs ?? DEFAULT_TIMEOUT_MS);
  const access = readAccess(options.env ?? process.env);
  return access && new JudgeProxyClient(access, timeoutMs);
}

/** A client for the judge. Calls may run concurrently. Every call that reaches the judge is counted. */
export class JudgeProxyClient {
  readonly #access: Access;
  readonly #timeoutMs: number;
  #connections: Connections | undefined;
  #closed = false;

  /** @internal Use `createJudgeProxyClient`. */
  constructor(access: Access, timeoutMs: number) {
    this.#access = access;
    this.#timeoutMs = timeoutMs;
  }

  /** Asks one question. */
  async invoke(request: JudgeRequest, options: CallOptions = {}): Promise<JudgeReply> {
    const wire = await loadWire();
    return wire.parseReply(await this.#send(wire.invokeRequest(request), options));
  }

  /**
   * Asks many questions in one request. Replies are in the order of the questions. If the judge fails for an item, only
   * that reply has `error` set.
   */
  async invokeBatch(requests: Iterable<JudgeRequest>, options: CallOptions = {}): Promise<JudgeReply[]> {
    const wire = await loadWire();
    const { request, expected } = wire.batchRequest(requests);
    return wire.parseBatch(await this.#send(request, options), expected);
  }

  /**
   * An answer that is one of `choices`, or JSON that matches `schema`. Invalid answers are retried.
   *
   * `material` is the text to be judged; the prompt marks it as evidence, separate from the question. Throws
   * `JudgeVerdictError` after `attempts` invalid answers, or if no call is left for a retry.
   */
  verdict<Choice extends string>(ask: VerdictQuestion & ChoiceForm<Choice>, options?: CallOptions): Promise<Choice>;
  verdict<Value = unknown>(ask: VerdictQuestion & SchemaForm, options?: CallOptions): Promise<Value>;
  async verdict(ask: unknown, options: CallOptions = {}): Promise<unknown> {
    const { askOne } = await import("./verdicts.js");
    return await askOne(this.#asker(options), ask);
  }

  /** Many verdicts in one request, in the order of the questions. Only questions without a verdict are retried. */
  verdicts<Choice extends string>(
    questions: Iterable<string | VerdictQuestion>,
    form: ChoiceForm<Choice>,
    options?: CallOptions,
  ): Promise<Choice[]>;
  verdicts<Value = unknown>(
    questions: Iterable<string | VerdictQuestion>,
    form: SchemaForm,
    options?: CallOptions,
  ): Promise<Value[]>;
  async verdicts(questions: unknown, form: unknown, options: CallOptions = {}): Promise<unknown[]> {
    const { askMany } = await import("./verdicts.js");
    return await askMany(this.#asker(options), questions, form);
  }

  /** The default judge target, the available targets and the call counts. Does not count as a call. */
  async getInfo(options: CallOptions = {}): Promise<JudgeInfo> {
    const wire = await loadWire();
    return wire.parseInfo(await this.#send(wire.INFO_REQUEST, options));
  }

  /** Closes idle connections and rejects later calls. */
  close(): void {
    this.#closed = true;
    this.#connections?.close();
  }

  /** The output of `console.log`, without the token. */
  [Symbol.for("nodejs.util.inspect.custom")](): string {
    return `JudgeProxyClient(${urlOf(this.#access)}, timeoutMs=${this.#timeoutMs})`;
  }

  #asker(options: CallOptions): Asker {
    return {
      invoke: (request) => this.invoke(request, options),
      invokeBatch: (requests) => this.invokeBatch(requests, options),
      getInfo: () => this.getInfo(options),
    };
  }

  async #send(request: Wire.Request, { signal }: CallOptions): Promise<Wire.Response> {
    const { Connections } = await import("./connection.js");
    if (this.#closed) {
      throw new JudgeNotAvailableError(
        "this judge client is closed; call the judge before close(), or create another client",
        { code: "closed" },
      );
    }
    this.#connections ??= new Connections(this.#access);
    return await this.#connections.exchange(request, { timeoutMs: this.#timeoutMs, signal });
  }
}

/** Loaded on the first call, because many judges never ask a model. */
function loadWire(): Promise<typeof Wire> {
  return import("./wire.js");
}

function checkedTimeout(timeoutMs: unknown): number {
  if (typeof timeoutMs !== "number" || !(timeoutMs > 0 && timeoutMs <= LONGEST_TIMEOUT_MS)) {
    throw new RangeError(
      `timeoutMs must be a number of milliseconds greater than 0 and at most ${LONGEST_TIMEOUT_MS}, ` +
        `got ${String(timeoutMs)}`,
    );
  }
  return timeoutMs;
}
