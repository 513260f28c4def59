/** Write agentv judge scripts: typed input and result, and a client for the judge proxy. */

export {
  createJudgeProxyClient,
  type CallOptions,
  type JudgeProxyClient,
  type JudgeProxyClientOptions,
} from "./client.js";
export * from "./graders.js";
export {
  JudgeFailedError,
  JudgeLimitError,
  JudgeNotAvailableError,
  JudgeProxyError,
  JudgeVerdictError,
  UnknownTargetError,
} from "./errors.js";
export { defineCodeJudge, type CodeJudgeHandler } from "./judge.js";
export type { VerdictSchema } from "./schema.js";
export {
  createProviderClient,
  createTargetClient,
  ProviderInvocationError,
  ProviderNotAvailableError,
  TargetInvocationError,
  TargetNotAvailableError,
  type ProviderClient,
  type ProviderInfo,
  type ProviderInvokeRequest,
  type ProviderInvokeResponse,
  type TargetClient,
  type TargetInfo,
  type TargetInvokeRequest,
  type TargetInvokeResponse,
} from "./target.js";
export {
  createCodeJudgeInput,
  type CodeJudgeInput,
  type CodeJudgeResult,
  type JudgeInfo,
  type JudgeMessage,
  type JudgeReply,
  type JudgeRequest,
  type Message,
  type ToolCall,
  type TraceSummary,
} from "./values.js";
export type { ChoiceForm, SchemaForm, VerdictQuestion } from "./verdicts.js";
export { VERSION } from "./version.js";
export { z } from "./lazy_zod.js";
