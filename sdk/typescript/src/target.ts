/** The client under the names of AgentV's SDKs: `target` until version 4, `provider` in version 5. */

import { readAccess, TOKEN_VARIABLE, URL_VARIABLE, type Environment } from "./access.js";
import { DEFAULT_TIMEOUT_MS, JudgeProxyClient } from "./client.js";
import { JudgeProxyError } from "./errors.js";
import type { JudgeInfo, JudgeMessage, JudgeReply, JudgeRequest } from "./values.js";

const PROXIES = ["AGENTV_TARGET_PROXY", "AGENTV_PROVIDER_PROXY"] as const;
/** The names of the proxy in AgentV's SDKs. agentv sets them beside its own. */
type Proxy = (typeof PROXIES)[number];

/** One question, as for `JudgeProxyClient.invoke`. */
export type TargetInvokeRequest = JudgeRequest;

/** The default target, the available targets, and the number of calls allowed and made. */
export type TargetInfo = JudgeInfo;

/** One reply. Reading `rawText` of a failed item of a batch throws a `TargetInvocationError`. */
export interface TargetInvokeResponse {
  readonly outputMessages: readonly JudgeMessage[];
  /** The same messages. */
  readonly output: readonly JudgeMessage[];
  readonly rawText?: string;
  readonly tokenUsage?: { input: number; output: number; cached?: number };
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

/** One question. `provider` selects a judge other than the default. */
export interface ProviderInvokeRequest extends Omit<JudgeRequest, "target"> {
  provider?: string | null | undefined;
}

export type ProviderInvokeResponse = TargetInvokeResponse;

/** The default judge, the available judges, and the number of calls allowed and made. */
export interface ProviderInfo extends JudgeInfo {
  providerLabel: string;
  availableProviderLabels: string[];
}

/** `TargetClient` in the words of AgentV 5. */
export interface ProviderClient {
  invoke(request: ProviderInvokeRequest): Promise<ProviderInvokeResponse>;
  invokeBatch(requests: readonly ProviderInvokeRequest[]): Promise<readonly ProviderInvokeResponse[]>;
  getInfo(): Promise<ProviderInfo>;
}

/** The environment contains the URL of a proxy without a usable token, or an invalid URL. */
export class ProviderNotAvailableError extends Error {
  static {
    this.prototype.name = "ProviderNotAvailableError";
  }
}

/** A call failed. `statusCode` is the HTTP status, or `undefined` if no response was received. */
export class ProviderInvocationError extends TargetInvocationError {
  static {
    this.prototype.name = "ProviderInvocationError";
  }
}

/** A client for the judge, or `undefined` if judge access is off. New scripts use `createJudgeProxyClient`. */
export function createTargetClient(): TargetClient | undefined {
  return clientOf("AGENTV_TARGET_PROXY", TargetNotAvailableError, TargetInvocationError, (request) => request);
}

/** Like `createTargetClient`, for scripts written for AgentV 5. */
export function createProviderClient(): ProviderClient | undefined {
  const client = clientOf("AGENTV_PROVIDER_PROXY", ProviderNotAvailableError, ProviderInvocationError, asTarget);
  return (
    client && {
      ...client,
      getInfo: async () => {
        const info = await client.getInfo();
        return { ...info, providerLabel: info.targetName, availableProviderLabels: info.availableTargets };
      },
    }
  );
}

function asTarget({ provider, ...request }: ProviderInvokeRequest): JudgeRequest {
  return provider === undefined ? request : { ...request, target: provider };
}

type NotAvailable = new (message: string, options?: ErrorOptions) => Error;
type InvocationError = new (message: string, statusCode?: number, options?: ErrorOptions) => Error;

function clientOf<Request>(
  proxy: Proxy,
  NotAvailableError: NotAvailable,
  FailedError: InvocationError,
  asked: (request: Request) => JudgeRequest,
) {
  let access;
  try {
    access = readAccess(accessVariables(process.env, proxy));
  } catch (error) {
    if (!(error instanceof JudgeProxyError)) throw error;
    throw new NotAvailableError(error.message, { cause: error });
  }
  if (access === undefined) return undefined;
  const client = new JudgeProxyClient(access, DEFAULT_TIMEOUT_MS);
  const failed = (error: unknown): unknown =>
    error instanceof JudgeProxyError
      ? new FailedError(error.message, error.status ?? undefined, { cause: error })
      : error;
  const translated = <Value>(call: Promise<Value>): Promise<Value> =>
    call.catch((error: unknown) => {
      throw failed(error);
    });
  return {
    invoke: (request: Request) => translated(client.invoke(asked(request)).then((reply) => response(reply, failed))),
    invokeBatch: (requests: readonly Request[]) =>
      translated(client.invokeBatch(listed(requests, asked)).then((replies) => replies.map((reply) => response(reply, failed)))),
    getInfo: () => translated(client.getInfo()),
  };
}

/** The requests for the judge client, which reports what is not a list. */
function listed<Request>(requests: readonly Request[], asked: (request: Request) => JudgeRequest): JudgeRequest[] {
  return Array.isArray(requests) ? requests.map(asked) : (requests as unknown as JudgeRequest[]);
}

/** The variables under the names of one SDK, or else under those of the other SDKs. */
function accessVariables(env: Environment, proxy: Proxy): Environment {
  const name = [proxy, ...PROXIES].find((each) => env[`${each}_URL`]);
  return name === undefined ? env : { [URL_VARIABLE]: env[`${name}_URL`], [TOKEN_VARIABLE]: env[`${name}_TOKEN`] };
}

function response(reply: JudgeReply, failed: (error: unknown) => unknown): TargetInvokeResponse {
  const { outputMessages, usage } = reply;
  const tokenUsage = usage as unknown as { input: number; output: number } | null;
  const fields = { outputMessages, output: outputMessages, ...(tokenUsage === null ? {} : { tokenUsage }) };
  if (reply.error === null) return { ...fields, rawText: reply.rawText };
  return Object.defineProperty(fields, "rawText", {
    get(): string {
      try {
        return reply.rawText;
      } catch (error) {
        throw failed(error);
      }
    },
    enumerable: true,
  });
}
