/**
 * Everything the judge client throws on purpose.
 *
 *     JudgeProxyError                 status, code, message; itself for other refusals and for broken replies
 *     +-- JudgeNotAvailableError      no judge to talk to: no or wrong token (401), shut down (503), refused
 *     +-- JudgeLimitError             the call would pass `judge.max_calls` (429); never tried again
 *     +-- UnknownTargetError          the target does not exist or is not allowed (400 `unknown_target`)
 *     +-- JudgeFailedError            the judge itself failed (502) or took too long (504); the call was counted
 *     +-- JudgeVerdictError           the judge answered, but never with a verdict (`invalid_verdict`)
 */

export interface JudgeErrorFields {
  status?: number | null;
  code?: string | null;
  cause?: unknown;
}

/** A call to the judge proxy did not give a reply. */
export class JudgeProxyError extends Error {
  /** The HTTP status, or `null` when there was no answer. */
  readonly status: number | null;
  /**
   * The proxy's machine word, or one of the client's own: `missing_token`, `invalid_token`, `invalid_url`,
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

/** There is no judge to talk to. */
export class JudgeNotAvailableError extends JudgeProxyError {
  static {
    this.prototype.name = "JudgeNotAvailableError";
  }
}

/** The call would pass the limit of this execution; the evaluator fails whatever the script does now. */
export class JudgeLimitError extends JudgeProxyError {
  static {
    this.prototype.name = "JudgeLimitError";
  }
}

/** The chosen target does not exist or is not allowed; the message lists those that are. */
export class UnknownTargetError extends JudgeProxyError {
  static {
    this.prototype.name = "UnknownTargetError";
  }
}

/** The judge was called and failed, or did not answer in time. */
export class JudgeFailedError extends JudgeProxyError {
  static {
    this.prototype.name = "JudgeFailedError";
  }
}

/** The judge was asked for a verdict as often as allowed and gave none. */
export class JudgeVerdictError extends JudgeProxyError {
  /** Its last reply. */
  readonly rawText: string;

  static {
    this.prototype.name = "JudgeVerdictError";
  }

  constructor(message: string, { rawText }: { rawText: string }) {
    super(message, { code: "invalid_verdict" });
    this.rawText = rawText;
  }
}

/** The error that an HTTP status and a machine word stand for. */
export function errorFor(status: number, code: string | null, message: string): JudgeProxyError {
  let Kind = JudgeProxyError;
  if (status === 401 || status === 503) Kind = JudgeNotAvailableError;
  else if (status === 429) Kind = JudgeLimitError;
  else if (status === 502 || status === 504) Kind = JudgeFailedError;
  else if (status === 400 && code === "unknown_target") Kind = UnknownTargetError;
  return new Kind(message, { status, code });
}

/** The error of a failed item of a batch: the one that `invoke` would have thrown for it. */
export function failedItem(message: string, code: string | null): JudgeProxyError {
  const status = code === "judge_timeout" ? 504 : code === "shutting_down" ? 503 : 502;
  return errorFor(status, code, message);
}

/** `; did you mean 'question'?`, or a plain `;` when no known name is close. */
export function didYouMean(name: string, known: readonly string[]): string {
  let best: string | undefined;
  let least = Math.max(1, Math.floor(name.length / 3)) + 1;
  for (const candidate of known) {
    const distance = edits(plain(name), plain(candidate));
    if (distance < least) [best, least] = [candidate, distance];
  }
  return best === undefined ? ";" : `; did you mean '${best}'?`;
}

/** Spellings of one name are equal: `system_prompt` and `systemPrompt`. */
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
