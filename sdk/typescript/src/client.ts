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
  /** For one call, in milliseconds; 120,000 unless you say otherwise. */
  timeoutMs?: number | undefined;
  /** Instead of `process.env`. */
  env?: Environment | undefined;
}

export interface CallOptions {
  /** Ends the call, and its connection with it; the call may have been counted. */
  signal?: AbortSignal | undefined;
}

/**
 * The client for the judge this script was lent, or `undefined` when judge access is off.
 *
 * Throws `JudgeNotAvailableError` when the environment names a proxy but gives no token, or names one that is not on
 * this machine.
 */
export function createJudgeProxyClient(options: JudgeProxyClientOptions = {}): JudgeProxyClient | undefined {
  const timeoutMs = checkedTimeout(options.timeoutMs ?? DEFAULT_TIMEOUT_MS);
  const access = readAccess(options.env ?? process.env);
  return access && new JudgeProxyClient(access, timeoutMs);
}

/** Asks the judge. Calls may run at the same time; every call that reaches the judge is counted. */
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

  /** One question, one reply. */
  async invoke(request: JudgeRequest, options: CallOptions = {}): Promise<JudgeReply> {
    const wire = await loadWire();
    return wire.parseReply(await this.#send(wire.invokeRequest(request), options));
  }

  /**
   * Many questions at once, replies in their order. An item that failed at the judge is a reply with `error` set; the
   * others keep their answers.
   */
  async invokeBatch(requests: Iterable<JudgeRequest>, options: CallOptions = {}): Promise<JudgeReply[]> {
    const wire = await loadWire();
    const { request, expected } = wire.batchRequest(requests);
    return wire.parseBatch(await this.#send(request, options), expected);
  }

  /**
   * An answer that is one of `choices`, or JSON that fits `schema`; anything else is asked for again.
   *
   * `material` is what is judged: it is set apart from the question, as evidence. Throws `JudgeVerdictError` when no
   * usable answer came in `attempts` calls, or when no call is left to ask again.
   */
  verdict<Choice extends string>(ask: VerdictQuestion & ChoiceForm<Choice>, options?: CallOptions): Promise<Choice>;
  verdict<Value = unknown>(ask: VerdictQuestion & SchemaForm, options?: CallOptions): Promise<Value>;
  async verdict(ask: unknown, options: CallOptions = {}): Promise<unknown> {
    const { askOne } = await import("./verdicts.js");
    return await askOne(this.#asker(options), ask);
  }

  /** Many verdicts at once, in the order of the questions; only those that are missing are asked for again. */
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

  /** Who judges and how many calls are left. Costs no call. */
  async getInfo(options: CallOptions = {}): Promise<JudgeInfo> {
    const wire = await loadWire();
    return wire.parseInfo(await this.#send(wire.INFO_REQUEST, options));
  }

  /** Close the idle connections; later calls are refused. */
  close(): void {
    this.#closed = true;
    this.#connections?.close();
  }

  /** What `console.log` shows: never the token. */
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

/** A judge that asks nothing does not pay for loading this. */
function loadWire(): Promise<typeof Wire> {
  return import("./wire.js");
}

function checkedTimeout(timeoutMs: unknown): number {
  if (typeof timeoutMs !== "number" || !(timeoutMs > 0 && timeoutMs <= LONGEST_TIMEOUT_MS)) {
    throw new RangeError(
      `timeoutMs is a number of milliseconds greater than 0 and at most ${LONGEST_TIMEOUT_MS}, ` +
        `not ${String(timeoutMs)}`,
    );
  }
  return timeoutMs;
}
