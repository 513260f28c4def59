/** Pure functions for the HTTP protocol: encode requests, parse responses. */

import { didYouMean, errorFor, failedItem, JudgeProxyError } from "./errors.js";
import { a, decode, hasHalfCharacter, isObject, strictJson } from "./text.js";
import { withBothSpellings, type JudgeInfo, type JudgeMessage, type JudgeReply } from "./values.js";

/** One request. `body` is UTF-8 JSON. */
export interface Request {
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly body?: Buffer;
}

/** One complete response, not yet parsed. */
export interface Response {
  readonly status: number;
  readonly body: Uint8Array;
  readonly encoding: string | undefined;
}

const NAMES: readonly string[] = ["question", "systemPrompt", "target", "evalCaseId", "attempt"];

export const INFO_REQUEST: Request = { method: "GET", path: "/info" };

export function invokeRequest(fields: unknown): Request {
  return { method: "POST", path: "/invoke", body: encode(question(fields, "")) };
}

/** The request and the number of replies to expect. */
export function batchRequest(items: unknown): { request: Request; expected: number } {
  if (typeof items !== "object" || items === null || !(Symbol.iterator in items)) {
    refuse(`invokeBatch takes a list of objects, got ${a(items)}; for a single question, call invoke`);
  }
  const requests = [...(items as Iterable<unknown>)].map((item, index) => question(item, `requests[${index}]: `));
  return { request: { method: "POST", path: "/invokeBatch", body: encode({ requests }) }, expected: requests.length };
}

function question(item: unknown, where: string): Record<string, unknown> {
  if (!isObject(item)) refuse(`${where}expected an object like {question: "..."}, got ${a(item)}`);
  for (const name of Object.keys(item)) {
    if (!NAMES.includes(name)) {
      refuse(`${where}unknown key '${name}'${didYouMean(name, NAMES)} known keys: ${NAMES.join(", ")}`);
    }
  }
  return Object.fromEntries(Object.entries(item).filter(([, value]) => value !== null && value !== undefined));
}

function encode(body: unknown): Buffer {
  let text: string;
  try {
    text = strictJson(body);
    if (hasHalfCharacter(text)) throw new TypeError("it contains an unpaired surrogate");
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    refuse(`the request cannot be serialized as UTF-8 JSON: ${reason}; use strings, and an integer for attempt`);
  }
  return Buffer.from(text);
}

/** Throws the error for invalid arguments. */
export function refuse(message: string): never {
  throw new JudgeProxyError(`${message}. Nothing was sent.`, { code: "invalid_request" });
}

export function parseInfo(response: Response): JudgeInfo {
  // Older versions of agentv send neither of the last two.
  const { targetName, maxCalls, callCount, availableTargets, waitingCalls = 0, waitedMs = 0 } = payload(response);
  if (typeof targetName !== "string") throw broken(response, `targetName must be a string, got ${a(targetName)}`);
  if (!isWhole(maxCalls) || !isWhole(callCount)) {
    throw broken(response, "maxCalls and callCount must be integers");
  }
  if (!Array.isArray(availableTargets) || !availableTargets.every((name) => typeof name === "string")) {
    throw broken(response, "availableTargets must be a list of strings");
  }
  if (!isWhole(waitingCalls) || !isWhole(waitedMs)) {
    throw broken(response, "waitingCalls and waitedMs must be integers");
  }
  return { targetName, maxCalls, callCount, availableTargets, waitingCalls, waitedMs };
}

function isWhole(value: unknown): value is number {
  return Number.isInteger(value);
}

export function parseReply(response: Response): JudgeReply {
  return reply(payload(response), response, "");
}

export function parseBatch(response: Response, expected: number): JudgeReply[] {
  const { responses } = payload(response);
  if (!Array.isArray(responses)) throw broken(response, `responses must be a list, got ${a(responses)}`);
  if (responses.length !== expected) {
    throw broken(response, `expected ${expected} responses, got ${responses.length}`);
  }
  return responses.map((item, index) => reply(item, response, `responses[${index}].`));
}

function reply(data: unknown, response: Response, where: string): JudgeReply {
  if (!isObject(data)) throw broken(response, `${where.slice(0, -1)} must be an object, got ${a(data)}`);
  const { outputMessages, usage } = data;
  if (!Array.isArray(outputMessages) || !outputMessages.every(isObject)) {
    throw broken(response, `${where}outputMessages must be a list of messages`);
  }
  const text = (name: string): string | null => {
    const value = data[name] ?? null;
    if (value !== null && typeof value !== "string") {
      throw broken(response, `${where}${name} must be a string, got ${a(value)}`);
    }
    return value;
  };
  const [rawText, error, code] = [text("rawText"), text("error"), text("code")];
  if (usage !== null && usage !== undefined && !isObject(usage)) {
    throw broken(response, `${where}usage must be an object, got ${a(usage)}`);
  }
  const messages = withBothSpellings(outputMessages as unknown as JudgeMessage[]);
  const fields = { outputMessages: messages, usage: usage ?? null, error, code };
  return error === null ? { rawText: rawText ?? lastText(messages), ...fields } : withoutText(fields, error);
}

function withoutText(fields: Omit<JudgeReply, "rawText">, error: string): JudgeReply {
  // Not enumerable, so that a failed item can still be logged and serialized as JSON.
  return Object.defineProperty(fields, "rawText", {
    get(): never {
      throw failedItem(error, fields.code);
    },
  }) as JudgeReply;
}

function lastText(messages: readonly JudgeMessage[]): string {
  for (const message of [...messages].reverse()) {
    if (message.role === "assistant") {
      return Array.isArray(message.content) ? message.content.map(partText).join("") : partText(message.content);
    }
  }
  return "";
}

function partText(part: unknown): string {
  if (isObject(part) && (part["type"] ?? "text") === "text") part = "value" in part ? part["value"] : part["text"];
  return typeof part === "string" ? part : "";
}

/** The JSON object of a response. Throws if the status is not 200. */
function payload(response: Response): Record<string, unknown> {
  if (response.status !== 200) throw refusal(response);
  if (response.encoding !== undefined && response.encoding !== "" && response.encoding !== "identity") {
    throw broken(response, `it has the unexpected encoding '${response.encoding}'`);
  }
  let data: unknown;
  try {
    data = JSON.parse(decode(response.body));
  } catch (error) {
    const start = new TextDecoder().decode(response.body.subarray(0, 60));
    const seen = start === "" ? "it is empty" : `it starts with ${JSON.stringify(start)}`;
    throw broken(response, `not UTF-8 JSON: ${seen}`, error);
  }
  if (!isObject(data)) throw broken(response, `expected a JSON object, got ${a(data)}`);
  return data;
}

function refusal(response: Response): JudgeProxyError {
  const { status } = response;
  if (status >= 300 && status < 400) {
    return errorFor(status, "redirect", `the judge proxy returned HTTP ${status}; redirects are never followed`);
  }
  let data: unknown;
  try {
    data = JSON.parse(decode(response.body));
  } catch {
    data = undefined;
  }
  const { error, code } = isObject(data) ? data : { error: undefined, code: undefined };
  const message =
    typeof error === "string" && error !== ""
      ? error
      : `the judge proxy returned HTTP ${status} without a message; see the log of the agentv run`;
  return errorFor(status, typeof code === "string" ? code : null, message);
}

function broken(response: Response, reason: string, cause?: unknown): JudgeProxyError {
  return new JudgeProxyError(
    `the response of the judge proxy is invalid: ${reason}. The call may have been counted and was not retried. ` +
      "See the log of the agentv run",
    { status: response.status, code: "invalid_reply", cause },
  );
}
