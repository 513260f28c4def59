// Runs the checks of `javascript` evaluators, started by agentv: `node javascript_runner.mjs [FILE]`.
//
// One process serves many checks: one payload per line on stdin, one result per line on stdout. Each payload has the key
// `check`, with the code or the function to call. With `--syntax`, the lines are code that is compiled and never run.
// Only Node itself is needed.

import { Console } from "node:console";
import { closeSync, openSync, readSync, writeSync } from "node:fs";
import { request } from "node:http";
import { createRequire } from "node:module";
import { basename } from "node:path";
import { pathToFileURL } from "node:url";
import * as vm from "node:vm";

import { NeverSettledError, attributeErrors, watched } from "./javascript_leftovers.mjs";

// `import()` in a check works with Node 20.12 or newer.
const COMPILED = { filename: "value", importModuleDynamically: vm.constants?.USE_MAIN_CONTEXT_DEFAULT_LOADER };
const NAMES = [
  "answer", "output", "input", "question", "referenceAnswer", "expectedOutcome",
  "vars", "metadata", "config", "context", "judge", "require",
];
const EXPECTED = "return true or false (for example with `Boolean(...)`), a number from 0 to 1, or an object with 'score' or 'pass'";
const ROUNDING_NOISE = 1e-6;
const NOT_OF_THE_CHECK = /node:internal|javascript_(?:runner|leftovers)\.mjs|\/node_modules\//;
const PROXY = { AGENTV_JUDGE_PROXY_URL: "url", AGENTV_JUDGE_PROXY_TOKEN: "token" };

/** Why a check has no result. The message is complete: no place is added. */
class CheckError extends Error {}

/** `require` as in a file of the suite's directory. */
function requireHere() {
  return createRequire(pathToFileURL(`${process.cwd()}/`).href);
}

// -- the code

/** The check as an async function with NAMES as parameters. Throws SyntaxError. */
function compiled(source) {
  try {
    return vm.compileFunction(`return (async () => (${source.replace(/;\s*$/, "")}\n))()`, NAMES, COMPILED);
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    const returns = /\breturn\b/.test(source);
    try {
      const body = vm.compileFunction(`return (async () => {${source}\n})()`, NAMES, COMPILED);
      if (returns) return body;
    } catch (inBody) {
      throw returns ? inBody : error; // code without `return` is meant as an expression
    }
    throw noReturn();
  }
}

function noReturn() {
  return new SyntaxError("it has statements but no `return`; return true or false, a number from 0 to 1, or an object with 'score'");
}

/** The reason why the code cannot be compiled, with its line; null if it can. */
function syntaxProblem(source) {
  try {
    compiled(source);
    return null;
  } catch (error) {
    const line = Number(/^value:(\d+)$/m.exec(error.stack ?? "")?.[1] ?? 0);
    if (line > source.split("\n").length) return "the code ends too early; complete the expression or close its brackets";
    return (line > 0 ? `line ${line}: ` : "") + oneLine(error.message);
  }
}

// -- calling it

async function exported(check) {
  const module = await import(pathToFileURL(check.file).href);
  const inside = typeof module.default === "object" && module.default !== null ? module.default : {};
  const name = check.function;
  const found = name === "default" ? module.default : (module[name] ?? inside[name]);
  if (typeof found === "function") return found;
  const names = Object.keys({ ...inside, ...module }).filter((each) => each !== "default" && each !== "module.exports");
  throw new CheckError(`${basename(check.file)} exports no function '${name}'; it exports ${names.join(", ") || "nothing"}`);
}

async function called(check, payload, judge) {
  const input = inputOf(payload);
  const answer = input.candidateAnswer ?? "";
  const [vars, metadata, config] = [payload.vars ?? {}, input.metadata ?? {}, input.config ?? {}];
  const context = { prompt: input.question, vars, config, metadata, input, judge, test: { vars, metadata } };
  if (check.file !== undefined) return await (await exported(check))(answer, context);
  const { question, referenceAnswer, expectedOutcome } = input;
  const require = requireHere();
  const values = { answer, output: answer, input, question, referenceAnswer, expectedOutcome, vars, metadata, config, context, judge, require };
  return await compiled(check.source)(...NAMES.map((name) => values[name]));
}

/** The payload with keys in camelCase, as a judge script of the TypeScript SDK gets it. `raw` is the payload itself. */
function inputOf(payload) {
  const keys = [
    "eval_id", "attempt", "target", "suite", "question", "expected_outcome", "reference_answer", "candidate_answer",
    "trace_summary", "metadata", "vars", "config",
  ];
  const lists = ["input_messages", "input_files", "expected_messages", "output_messages", "guideline_files"];
  const camel = (key) => key.replace(/_([a-z])/g, (_, letter) => letter.toUpperCase());
  return Object.fromEntries([
    ...keys.map((key) => [camel(key), payload[key] ?? null]),
    ...lists.map((key) => [camel(key), payload[key] ?? []]),
    ["raw", payload],
  ]);
}

// -- the judge

/** The client of the TypeScript SDK if the suite has it installed, else one with the same `invoke`, `invokeBatch` and `getInfo`. */
async function judgeClient(access) {
  if (!access) return null;
  try {
    const path = requireHere().resolve("@agentv/eval");
    return (await import(pathToFileURL(path).href)).createJudgeProxyClient();
  } catch (error) {
    if (error.code !== "MODULE_NOT_FOUND" && error.code !== "ERR_PACKAGE_PATH_NOT_EXPORTED") throw error;
    return new SmallJudgeClient(access);
  }
}

class SmallJudgeClient {
  #access;

  constructor(access) {
    this.#access = access;
  }

  async invoke(question) {
    return readable(await this.#send("POST", "/invoke", question));
  }

  async invokeBatch(requests) {
    return (await this.#send("POST", "/invokeBatch", { requests: [...requests] })).responses.map(readable);
  }

  async getInfo() {
    return await this.#send("GET", "/info");
  }

  close() {}

  #send(method, path, body) {
    const { url, token } = this.#access;
    const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
    return new Promise((resolve, reject) => {
      const sent = request(`${url}${path}`, { method, headers, agent: false }, (response) => {
        const chunks = [];
        response.on("data", (chunk) => chunks.push(chunk));
        response.on("error", reject);
        response.on("end", () => {
          try {
            const data = JSON.parse(Buffer.concat(chunks).toString("utf8"));
            if (response.statusCode === 200) resolve(data);
            else reject(new Error(`the judge proxy refused the call: ${data.error?.message ?? data.error ?? response.statusCode}`));
          } catch (error) {
            reject(error);
          }
        });
      });
      sent.on("error", reject);
      sent.end(body === undefined ? undefined : JSON.stringify(body));
    });
  }
}

/** A reply whose `rawText` throws if the judge failed, so that a failure is never mistaken for an empty reply. */
function readable(reply) {
  if (!reply.error) return reply;
  return Object.defineProperty(reply, "rawText", {
    get() {
      throw new Error(`the judge failed: ${reply.error}`);
    },
  });
}

// -- results

function resultOf(value, { label, threshold }) {
  if (typeof value === "boolean") return counted(Number(value), `${label} is ${value}`, value);
  if (typeof value === "number") return counted(scoreOf(value), `${label} is ${Number(value.toPrecision(6))}`, value >= threshold);
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new CheckError(`the check returned ${shown(value)}; ${EXPECTED}`);
  }
  const { pass, reason, ...fields } = value;
  if (pass !== undefined && typeof pass !== "boolean") throw new CheckError(`'pass' must be true or false, got ${shown(pass)}`);
  if (reason !== undefined && typeof reason !== "string") throw new CheckError(`'reason' must be a string, got ${shown(reason)}`);
  if (fields.score === undefined && pass === undefined) {
    throw new CheckError(`the object has neither 'score' nor 'pass', only [${Object.keys(value).sort().join(", ")}]`);
  }
  fields.score = scoreOf(typeof fields.score === "boolean" ? Number(fields.score) : (fields.score ?? Number(pass)));
  if (pass !== undefined && pass !== fields.score >= threshold) {
    throw new CheckError(
      `'pass' is ${pass}, but the score ${fields.score} is ${fields.score < threshold ? "below" : "not below"} the threshold ` +
        `${threshold}; return only one of them, or set \`threshold\` of the evaluator`,
    );
  }
  if (reason) {
    fields.reasoning ||= reason;
    if (!fields.hits?.length && !fields.misses?.length) fields[fields.score >= threshold ? "hits" : "misses"] = [reason];
  }
  return fields;
}

function counted(score, text, passed) {
  return { score, [passed ? "hits" : "misses"]: [text] };
}

function scoreOf(score) {
  if (typeof score !== "number") throw new CheckError(`score must be a number from 0 to 1, got ${shown(score)}`);
  if (!Number.isFinite(score)) {
    throw new CheckError("score must be a finite number from 0 to 1, got Infinity or NaN; check for a division by zero");
  }
  if (score < -ROUNDING_NOISE || score > 1 + ROUNDING_NOISE) {
    const advice = score > 1 ? "divide by the maximum of your scale" : "map your scale to 0 (worst) to 1 (best)";
    throw new CheckError(`score must be between 0 and 1, got ${score}; ${advice}`);
  }
  return Math.min(1, Math.max(0, score));
}

function shown(value) {
  if (typeof value === "string") return `the string ${JSON.stringify(value.slice(0, 60))}`;
  if (value === null || value === undefined) return String(value);
  return Array.isArray(value) ? "an array" : `a value of type ${typeof value}`;
}

function oneLine(text) {
  return String(text).split(/\s+/).join(" ").trim();
}

/** Why a check failed, in one line, with the last place in its own code. */
function reasonOf(error, check) {
  try {
    return describe(error, check);
  } catch {
    return "the check threw a value that cannot be shown; throw an Error"; // such as an error whose `message` throws
  }
}

function describe(error, check) {
  if (error instanceof CheckError || error instanceof NeverSettledError) return error.message;
  if (error?.code === "ERR_VM_DYNAMIC_IMPORT_CALLBACK_MISSING") {
    return `\`import()\` in \`value\` needs Node 20.12 or newer, this is ${process.version}; use \`require\`, or move the code to a file`;
  }
  if (!(error instanceof Error) && typeof error?.stack !== "string") return `the check threw ${shown(error)}; throw an Error`;
  const named = `${error.name ?? "Error"}: ${oneLine(error.message)}`;
  for (const line of String(error.stack).split("\n")) {
    if (NOT_OF_THE_CHECK.test(line)) continue;
    const inValue = /(?:\(|at )value:(\d+):\d+\)?$/.exec(line) ?? /^value:(\d+)$/.exec(line);
    if (inValue) return `${named} at value, line ${inValue[1]}`;
    const inFile = /(?:\(|at |^)(?:async )?(?:file:\/\/)?(\/[^():]+):(\d+)(?::\d+)?\)?$/.exec(line);
    if (inFile) return `${named} at ${basename(inFile[1])}:${inFile[2]}`;
  }
  return check.file === undefined ? named : `${named} (${basename(check.file)})`;
}

// -- lines

/** Takes stdin and stdout for the protocol: what a check or its children print goes to stderr, and they read nothing. */
function claimStreams() {
  const streams = { from: 0, to: 1 };
  globalThis.console = new Console(process.stderr, process.stderr);
  process.stdout.write = process.stderr.write.bind(process.stderr);
  try {
    const [from, to] = [openSync("/proc/self/fd/0", "r"), openSync("/proc/self/fd/1", "w")];
    replace(0, () => openSync("/dev/null", "r"));
    replace(1, () => openSync("/proc/self/fd/2", "a"));
    return { from, to };
  } catch {
    return streams; // not Linux, or no access to its own /proc: children share the streams
  }
}

/** Puts what `open` opens, the lowest free descriptor, in the place of another one. */
function replace(descriptor, open) {
  closeSync(descriptor);
  if (open() !== descriptor) throw new Error(`descriptor ${descriptor} is in use`);
}

/** The lines of a descriptor, read while nothing else runs. */
function* linesOf(descriptor) {
  const chunk = Buffer.alloc(65536);
  let parts = [];
  for (;;) {
    const size = readSync(descriptor, chunk);
    if (size === 0) return;
    let start = 0;
    for (let end = chunk.indexOf(10); end >= 0 && end < size; end = chunk.indexOf(10, start)) {
      yield Buffer.concat([...parts, chunk.subarray(start, end)]).toString("utf8");
      [parts, start] = [[], end + 1];
    }
    if (start < size) parts.push(Buffer.from(chunk.subarray(start, size)));
  }
}

function write(descriptor, value) {
  let data = Buffer.from(`${JSON.stringify(value)}\n`);
  while (data.length > 0) data = data.subarray(writeSync(descriptor, data));
}

async function served(line, send) {
  const { execution_id, judge_proxy, check, ...payload } = JSON.parse(line);
  const name = execution_id === undefined ? {} : { execution_id };
  const watching = {
    reason: (error) => reasonOf(error, check),
    late: (text, isKnown) => {
      const culprit = isKnown ? `the check ${check.label} of case '${payload.eval_id}'` : "an earlier check";
      send({ late_error: `${culprit} failed after its result: ${text}`, execution_id: `late ${execution_id}` });
    },
    ended: (code) => {
      send({ error: `the check ended its process (it exited with code ${code}) instead of returning a result.`, ...name });
    },
  };
  let judge = null;
  try {
    for (const [variable, key] of Object.entries(PROXY)) if (judge_proxy) process.env[variable] = judge_proxy[key];
    judge = await judgeClient(judge_proxy);
    const { value, warnings } = await watched(() => called(check, payload, judge), watching);
    const result = { ...resultOf(value, check), ...(warnings.length > 0 && { warnings }), ...name };
    JSON.stringify(result); // a value that JSON does not allow fails here, as an error of the check
    return result;
  } catch (error) {
    return { error: reasonOf(error, check), ...name };
  } finally {
    for (const variable of Object.keys(PROXY)) delete process.env[variable];
    judge?.close();
  }
}

async function main() {
  if (process.argv[2] === "--syntax") {
    for (const line of linesOf(0)) write(1, { problem: syntaxProblem(JSON.parse(line)) });
    return;
  }
  const { from, to } = claimStreams();
  const send = (value) => write(to, value);
  attributeErrors();
  for (const line of linesOf(from)) if (line.trim() !== "") send(await served(line, send));
  process.exit(0); // do not wait for handles that a check left open
}

await main();
