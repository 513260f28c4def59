/** The client under the names of AgentV's SDK of January 2026, for scripts that were written for it. */

import { readAccess, TOKEN_VARIABLE, URL_VARIABLE, type Environment } from "./access.js";
import { DEFAULT_TIMEOUT_MS, JudgeProxyClient } from "./client.js";
import { JudgeProxyError } from "./errors.js";
import type { JudgeInfo, JudgeMessage, JudgeReply, JudgeRequest } from "./values.js";

/** One question, as for `JudgeProxyClient.invoke`. */
export type TargetInvokeRequest = JudgeRequest;

/** The default target, the available targets, and the number of calls allowed and made. */
export type TargetInfo = JudgeInfo;

/** One reply. Reading `rawText` of a failed item of a batch throws a `TargetInvocationError`. */
export interface TargetInvokeResponse {
  readonly outputMessages: readonly JudgeMessage[];
  readonly rawText?: string;
}

/** Another spelling of `JudgeProxyClient`: the judge proxy lends the judge, which is a target. */
export interface TargetClient {
  /** Asks one question. */
  invoke(request: TargetInvokeRequest): Promise<TargetInvokeResponse>;
  /** Asks many questions in one request. Each counts as a call. */
  invokeBatch(requests: readonly TargetInvokeRequest[]): Promise<readonly TargetInvokeResponse[]>;
  /** The available targets and the call counts. Does not count as a call. */
  getInfo(): Promise<TargetInfo>;
}

/** The environment contains the URL of a proxy without a usable token, or an invalid URL. */
export class TargetNotAvailableError extends Error {
  static {
    this.prototype.name = "TargetNotAvailableError";
  }
}

/** A call failed. `statusCode` is the HTTP status, or `undefined` if no response was received. */
export class TargetInvocationError extends Error {
  readonly statusCode: number | undefined;

  static {
    this.prototype.name = "TargetInvocationError";
  }

  constructor(message: string, statusCode?: number, options?: ErrorOptions) {
    super(message, options);
    this.statusCode = statusCode;
  }
}

/** A client for the judge, or `undefined` if judge access is off. New scripts use `createJudgeProxyClient`. */
export function createTargetClient(): TargetClient | undefined {
  let access;
  try {
    access = readAccess(accessVariables(process.env));
  } catch (error) {
    if (!(error instanceof JudgeProxyError)) throw error;
    throw new TargetNotAvailableError(error.message, { cause: error });
  }
  if (access === undefined) return undefined;
  const client = new JudgeProxyClient(access, DEFAULT_TIMEOUT_MS);
  return {
    invoke: (request) => translated(async () => response(await client.invoke(request))),
    invokeBatch: (requests) => translated(async () => (await client.invokeBatch(requests)).map(response)),
    getInfo: () => translated(() => client.getInfo()),
  };
}

/** The variables under the names that AgentV uses, or else under those of the judge proxy. */
function accessVariables(env: Environment): Environment {
  const url = env["AGENTV_TARGET_PROXY_URL"];
  return url ? { [URL_VARIABLE]: url, [TOKEN_VARIABLE]: env["AGENTV_TARGET_PROXY_TOKEN"] } : env;
}

async function translated<Value>(call: () => Promise<Value>): Promise<Value> {
  try {
    return await call();
  } catch (error) {
    throw invocationError(error);
  }
}

function invocationError(error: unknown): unknown {
  if (!(error instanceof JudgeProxyError)) return error;
  return new TargetInvocationError(error.message, error.status ?? undefined, { cause: error });
}

function response(reply: JudgeReply): TargetInvokeResponse {
  const { outputMessages } = reply;
  if (reply.error === null) return { outputMessages, rawText: reply.rawText };
  return {
    outputMessages,
    get rawText(): string {
      try {
        return reply.rawText;
      } catch (error) {
        throw invocationError(error);
      }
    },
  };
}
