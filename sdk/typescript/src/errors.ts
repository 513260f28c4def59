/**
 * Errors thrown by the judge client.
 *
 *     JudgeProxyError                 status, code, message; thrown directly for other refusals and invalid responses
 *     +-- JudgeNotAvailableError      no judge: missing or wrong token (401), shutting down (503), connection refused
 *     +-- JudgeLimitError             the call would exceed `judge.max_calls` (429); never retried
 *     +-- UnknownTargetError          the target does not exist or is not allowed (400 `unknown_target`)
 *     +-- JudgeFailedError            the judge failed (502) or timed out (504); the call was counted
 *     +-- JudgeVerdictError           the judge replied, but never with a valid verdict (`invalid_verdict`)
 */

export interface JudgeErrorFields {
  status?: number | null;
  code?: string | null;
  cause?: unknown;
}

/** A call to the judge proxy failed. */
export class JudgeProxyError extends Error {
  /** The HTTP status, or `null` if no response was received. */
  readonly status: number | null;
  /**
   * The error code sent by the proxy, or one set by the client: `missing_token`, `invalid_token`, `invalid_url`,
   * `unreachable`, `closed`, `invalid_request`, `connection_lost`, `invalid_reply`, `redirect`, `client_timeout`,
   * `invalid_verdict`.
   */
  readonly code: string | null;

  static {
    this.prototype.name = "JudgeProxyError";
  }

  constructor(message: string, { status = null, code = null, cause }: JudgeErrorFields = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.status = status;
    this.code = code;
  }
}

/** No judge is available. */
export class JudgeNotAvailableError extends JudgeProxyError {
  static {
    this.prototype.name = "JudgeNotAvailableError";
  }
}

/** The call would exceed the call limit. The evaluator fails, whatever the script returns. */
export class JudgeLimitError extends JudgeProxyError {
  static {
    this.prototype.name = "JudgeLimitError";
  }
}

/** The requested target does not exist or is not allowed. The message lists the allowed targets. */
export class UnknownTargetError extends JudgeProxyError {
  static {
    this.prototype.name = "UnknownTargetError";
  }
}

/** The judge was called and failed or timed out. */
export class JudgeFailedError extends JudgeProxyError {
  static {
    this.prototype.name = "JudgeFailedError";
  }
}

/** No attempt returned a valid verdict. */
export class JudgeVerdictError extends JudgeProxyError {
  /** The judge's last reply. */
  readonly rawText: string;

  static {
    this.prototype.name = "JudgeVerdictError";
  }

  constructor(message: string, { rawText }: { rawText: string }) {
    super(message, { code: "invalid_verdict" });
    this.rawText = rawText;
  }
}

/** The error for an HTTP status and an error code. */
export function errorFor(status: number, code: string | null, message: string): JudgeProxyError {
  let Kind = JudgeProxyError;
  if (status === 401 || status === 503) Kind = JudgeNotAvailableError;
  else if (status === 429) Kind = JudgeLimitError;
  else if (status === 502 || status === 504) Kind = JudgeFailedError;
  else if (status === 400 && code === "unknown_target") Kind = UnknownTargetError;
  return new Kind(message, { status, code });
}

/** The error for a failed batch item: the same that `invoke` would have thrown. */
export function failedItem(message: string, code: string | null): JudgeProxyError {
  const status = code === "judge_timeout" ? 504 : code === "shutting_down" ? 503 : 502;
  return errorFor(status, code, message);
}

/** `; did you mean 'question'?`, or just `;` if no known name is similar. */
export function didYouMean(name: string, known: readonly string[]): string {
  let best: string | undefined;
  let least = Math.max(1, Math.floor(name.length / 3)) + 1;
  for (const candidate of known) {
    const distance = edits(plain(name), plain(candidate));
    if (distance < least) [best, least] = [candidate, distance];
  }
  return best === undefined ? ";" : `; did you mean '${best}'?`;
}

/** Normalizes a name, so that `system_prompt` equals `systemPrompt`. */
function plain(name: string): string {
  return name.replace(/[_-]/g, "").toLowerCase();
}

function edits(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const kept = row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(kept, row[j]! + 1, next[j - 1]! + 1));
    }
    row = next;
  }
  return row[b.length]!;
}
