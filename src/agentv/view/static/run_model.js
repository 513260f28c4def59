// @ts-check
// Runs that were loaded, kept between pages: rows as typed arrays, and cases as groups of their attempts.

import { extended, NUMBERS, resized, STRINGS } from "./packed_columns.js";
import { address } from "./router.js";
import { variantOf } from "./variants.js";

/** @typedef {import("./types.js").Source} Source */
/** @typedef {import("./types.js").RunInfo} RunInfo */
/** @typedef {import("./types.js").ColumnsData} ColumnsData */
/** @typedef {import("./types.js").LiveState} LiveState */
/** @typedef {import("./types.js").Numbers} Numbers */
/** @typedef {{count: number, pass_if: string}} Trials */

export const OUTCOMES = ["pass", "borderline", "fail", "error", "incomplete"];
export const PASS = 0;
export const BORDERLINE = 1;
export const FAIL = 2;
export const ERROR = 3;
export const INCOMPLETE = 4;
export const DEFAULT_THRESHOLD = 0.8;
const BORDERLINE_SCORE = 0.6;
const KEPT = 6;

/** The runs of a source. The last few are kept, so that going back is immediate. */
export class Runs {
  /** @param {Source} source */
  constructor(source) {
    this.source = source;
    /** @type {Map<string, Promise<RunModel>>} */
    this.models = new Map();
  }

  /**
   * @param {string} run The address of a run.
   * @returns {Promise<RunModel>}
   */
  async get(run) {
    const model = await this.early(run);
    await this.complete(model);
    return model;
  }

  /** Read the questions and reasons of a run. If that fails, it is loaded again the next time. @param {RunModel} model */
  async complete(model) {
    try {
      await model.complete();
    } catch (error) {
      this.models.delete(model.run);
      throw error;
    }
  }

  /** The run, perhaps without its questions and reasons. @param {string} run */
  async early(run) {
    let model = this.models.get(run);
    this.models.delete(run);
    model = model ? model.then((old) => old.update()) : RunModel.load(this.source, run);
    this.models.set(run, model);
    for (const name of this.models.keys()) if (this.models.size > KEPT) this.models.delete(name);
    model.catch(() => this.models.get(run) === model && this.models.delete(run));
    return model;
  }
}

/** The rows of a run. Unknown numbers are NaN. */
export class RunModel {
  /**
   * @param {Source} source
   * @param {string} run
   * @param {RunInfo} info
   * @param {ColumnsData} data
   */
  constructor(source, run, info, data) {
    this.source = source;
    this.run = run;
    this.info = info;
    this.generation = data.generation;
    this.count = 0;
    this.eval_id = data.eval_id;
    this.question = data.question;
    this.reason = data.reason;
    /** @type {Numbers} */ this.suite = data.suite;
    /** @type {Numbers} */ this.target = data.target;
    /** @type {Numbers} */ this.attempt = data.attempt;
    /** @type {Numbers} */ this.score = data.score;
    /** @type {Numbers} */ this.outcome = data.outcome;
    /** @type {Numbers} */ this.threshold = data.threshold;
    /** @type {Numbers} */ this.trial = data.trial;
    /** @type {Numbers} */ this.stage = data.stage;
    /** @type {Numbers} */ this.duration_ms = data.duration_ms;
    /** @type {Numbers} */ this.started_at = data.started_at;
    /** @type {Numbers} */ this.cost_usd = data.cost_usd;
    /** @type {Numbers} */ this.judge_cost_usd = data.judge_cost_usd;
    /** @type {Numbers} */ this.judge_calls = data.judge_calls;
    /** @type {Numbers} */ this.tokens = data.tokens;
    /** @type {Numbers} */ this.answer_length = data.answer_length;
    /** @type {Numbers} */ this.answer = data.answer;
    /** @type {Numbers} */ this.tag_set = data.tag_set;
    /** @type {Numbers[]} */ this.evaluator_scores = [];
    /** @type {Numbers[]} */ this.tool_calls = [];
    /** @type {Record<string, Numbers>} */ this.metadata_index = Object.create(null);
    /** @type {Pick<ColumnsData, "trials"|"stages"|"tag_sets">} */ this.dictionaries = data;
    this.suites = data.suites;
    this.targets = data.targets;
    this.variants = data.variants;
    this.evaluators = data.evaluators;
    this.tags = data.tags;
    this.tools = data.tools;
    this.metadata = data.metadata;
    /** @type {Promise<void>} */ this.loading = Promise.resolve();
    this.complete = data.complete;
    this.cases = new Cases(this);
    this.append(data);
  }

  /**
   * @param {Source} source
   * @param {string} run
   */
  static async load(source, run) {
    const [info, data] = await Promise.all([source.run(run), source.columns(run)]);
    return new RunModel(source, run, info, data);
  }

  /** Add rows, and replace the dictionaries, which only grow. @param {ColumnsData} data */
  append(data) {
    const start = this.count;
    if (data.generation !== this.generation || data.start !== start || (start && data.eval_id.first !== this.eval_id.count)) throw new Error("the rows do not continue those that were loaded");
    this.dictionaries = { trials: data.trials, stages: data.stages, tag_sets: data.tag_sets }; // not the columns, which are copied
    this.suites = data.suites;
    this.targets = data.targets;
    this.variants = data.variants;
    this.evaluators = data.evaluators;
    this.tags = data.tags;
    this.tools = data.tools;
    this.metadata = data.metadata;
    for (const name of STRINGS) start ? this[name].append(start, data[name]) : (this[name] = data[name]);
    for (const name of NUMBERS) this[name] = extended(this[name], start, data[name], NaN);
    this.evaluator_scores = data.evaluator_scores.map((values, i) => extended(this.evaluator_scores[i] ?? new Float64Array(), start, values, NaN));
    this.tool_calls = data.tool_calls.map((values, i) => extended(this.tool_calls[i] ?? new Int8Array(), start, values, 0));
    for (const [key, values] of Object.entries(data.metadata_index)) {
      this.metadata_index[key] = extended(this.metadata_index[key] ?? new Int8Array(), start, values, -1);
    }
    this.count = start + data.count;
    this.cases.extend(start);
  }

  /** Load what is new if the run is being written. */
  async update() {
    if (this.source.kind === "server" && this.info.head.status === "running") {
      this.info = await this.source.run(this.run);
      await this.catchUp();
    }
    return this;
  }

  /** Load new rows; all of them if some were replaced. Returns whether they were. */
  async catchUp() {
    const before = this.generation;
    const mine = this.loading.then(async () => {
      let data = await this.source.columns(this.run, this.count);
      await Promise.all([data.complete(), this.complete()]);
      if (data.generation !== this.generation || data.start !== this.count) {
        if (data.start > 0) data = await this.source.columns(this.run);
        await data.complete();
        const { cases } = Object.assign(this, new RunModel(this.source, this.run, this.info, data), { loading: this.loading });
        cases.model = this;
      } else {
        this.append(data);
      }
    });
    this.loading = mine.catch(() => {});
    await mine;
    return before !== this.generation;
  }

  /**
   * Follow a run that is being written: new rows are appended, then `changed` is called. Returns how to stop.
   * @param {(state: LiveState, added: number, replaced: boolean) => void} changed
   */
  follow(changed) {
    let stopped = false;
    /** @type {LiveState|null} */
    let latest = null;
    let busy = false;
    const work = async () => {
      while (latest && !stopped) {
        const state = latest;
        latest = null;
        const count = this.count;
        let replaced = false;
        if (state.generation !== this.generation || state.rows > count) replaced = await this.catchUp();
        if (state.status !== this.info.head.status) this.info = await this.source.run(this.run);
        if (!stopped) changed(state, replaced ? this.count : this.count - count, replaced);
      }
    };
    const stop = this.source.follow(this.run, (state) => {
      latest = state;
      if (busy) return;
      busy = true;
      // A failed request is repeated with the next state.
      void work().catch(() => {}).finally(() => (busy = false));
    });
    return () => {
      stopped = true;
      stop();
    };
  }

  /** Load the details of a row that is likely to be opened next. Those of a run that is being written may change. @param {number|undefined} i */
  ahead(i) {
    if (i !== undefined && this.info.head.status !== "running") this.source.ahead?.(this.run, i);
  }

  /** Everything about a row; null if the file does not have it. @param {number} i */
  async detail(i) {
    const detail = await this.source.detail(this.run, i);
    const { suite, eval_id: id, target = "", prompt, attempt } = detail?.row ?? {};
    if (detail && this.source.kind === "server" && JSON.stringify([suite, id, variantOf(target, prompt), attempt]) !== this.key(i)) throw new Error("The rows of this run were replaced. Reload the page.");
    return detail;
  }

  /** @param {number} i */
  suiteOf(i) {
    return this.suites[this.suite[i]];
  }

  /** @param {number} i */
  targetOf(i) {
    return this.targets[this.target[i]];
  }

  /** Identifies a row within the run, whatever its index is. @param {number} i */
  key(i) {
    return JSON.stringify([this.suiteOf(i), this.eval_id.at(i), this.targetOf(i), this.attempt[i]]);
  }

  /**
   * The address of the page of a row.
   * @param {number} i
   * @param {Record<string, string|number|null|undefined>} [query]
   */
  caseAddress(i, query) {
    return address(["run", this.run, "case", this.suiteOf(i), this.eval_id.at(i), this.targetOf(i), this.attempt[i]], query);
  }

  /**
   * The row with this key, or -1.
   * @param {string} suite
   * @param {string} evalId
   * @param {string} target
   * @param {number} attempt
   */
  indexOf(suite, evalId, target, attempt) {
    const found = this.cases.find(suite, evalId, target);
    return found < 0 ? -1 : this.cases.rows(found).find((row) => this.attempt[row] === attempt) ?? -1;
  }
}

/** The attempts of each case with one target, and the verdict over them: position c of every column is case c. */
export class Cases {
  /** @param {RunModel} model */
  constructor(model) {
    this.model = model;
    this.count = 0;
    /** @type {Map<number, Numbers>} For a suite and a target: by the number of an id, that of the case plus 1. */
    this.index = new Map();
    this.of = new Int32Array(); // The case of each row.
    this.next = new Int32Array(); // The next row of the same case, -1 at the end.
    this.first = new Int32Array(); // The first row of each case.
    this.last = new Int32Array();
    this.outcome = new Uint8Array();
    this.score = new Float64Array(); // Mean over the scored attempts, NaN if there is none.
    this.threshold = new Float64Array();
    this.attempts = new Int32Array();
    this.passes = new Int32Array();
    this.repeated = false; // Whether a case has several attempts.
  }

  /**
   * The case with this key, or -1.
   * @param {string} suite
   * @param {string} evalId
   * @param {string} target
   */
  find(suite, evalId, target) {
    return this.at(this.model.suites.indexOf(suite), this.model.eval_id.find(evalId), this.model.targets.indexOf(target));
  }

  /** The case with these numbers, or -1. @param {number} suite @param {number|undefined} id @param {number} target */
  at(suite, id, target) {
    return (this.index.get(this.place(suite, target))?.[id ?? -1] ?? 0) - 1;
  }

  /** Identifies a case within the run, whatever its number is. @param {number} c */
  key(c) {
    const row = this.first[c];
    return JSON.stringify([this.model.suiteOf(row), this.model.eval_id.at(row), this.model.targetOf(row)]);
  }

  /** The case with a key, or -1. @param {string} key */
  withKey(key) {
    const [suite, evalId, target] = JSON.parse(key);
    return this.find(suite, evalId, target);
  }

  /** @param {number} suite @param {number} target */
  place(suite, target) {
    return suite * 1e6 + target;
  }

  /** Rows of a case, by attempt. @param {number} c */
  rows(c) {
    const rows = [];
    for (let row = this.first[c]; row >= 0; row = this.next[row]) rows.push(row);
    const { attempt } = this.model;
    return rows.sort((a, b) => attempt[a] - attempt[b]);
  }

  /** Whether some attempts passed and others did not. @param {number} c */
  isFlaky(c) {
    if (this.attempts[c] < 2) return false;
    const scored = this.rows(c).filter((row) => this.model.outcome[row] !== ERROR).length;
    return 0 < this.passes[c] && this.passes[c] < scored;
  }

  /**
   * The mean of a column over the attempts of a case where it is known, or their sum. NaN if it is not known.
   * @param {ArrayLike<number>} column
   * @param {number} c
   * @param {boolean} [summed]
   */
  value(column, c, summed = false) {
    const first = this.first[c];
    if (this.attempts[c] === 1) return column[first] ?? NaN;
    let total = 0;
    let known = 0;
    for (let row = first; row >= 0; row = this.next[row]) {
      const value = column[row] ?? NaN;
      if (Number.isNaN(value)) continue;
      total += value;
      known += 1;
    }
    return known === 0 ? NaN : summed ? total : total / known;
  }

  /** Add the rows from `start` on. @param {number} start */
  extend(start) {
    const { suite, target, eval_id: ids, count } = this.model;
    this.of = resized(this.of, count);
    this.next = resized(this.next, count);
    const known = this.count;
    this.first = resized(this.first, known + count - start); // At most. Those that are not used are cut off below.
    this.last = resized(this.last, known + count - start);
    const { of, next, first, last, index } = this;
    /** @type {Set<number>} Cases that were there. */
    const changed = new Set();
    for (const [place, cases] of index) index.set(place, resized(cases, ids.count));
    let made = known;
    // Rows next to each other are mostly of one suite and target. These loops run before the browser has optimised them.
    const numbers = ids.index;
    let [inSuite, ofTarget] = [-1, -1];
    /** @type {Numbers} */
    let cases = first;
    for (let row = start; row < count; row++) {
      if (suite[row] !== inSuite || target[row] !== ofTarget) {
        inSuite = suite[row];
        ofTarget = target[row];
        const place = this.place(inSuite, ofTarget);
        cases = index.get(place) ?? new Int32Array(ids.count);
        index.set(place, cases);
      }
      const id = numbers[row];
      let number = cases[id];
      next[row] = -1;
      if (number === 0) {
        first[made] = row;
        cases[id] = number = ++made;
      } else {
        next[last[number - 1]] = row;
        if (number <= known) changed.add(number - 1);
      }
      of[row] = number - 1;
      last[number - 1] = row;
    }
    this.count = made;
    for (const name of /** @type {const} */ (["first", "last", "outcome", "score", "threshold", "attempts", "passes"])) {
      /** @type {any} */ (this)[name] = resized(this[name], this.count);
    }
    for (const c of changed) this.judge(c);
    this.judgeNew(known);
  }

  /** The verdicts of the cases from `start` on. Most have one attempt, which decides. @param {number} start */
  judgeNew(start) {
    const { outcome, score, threshold, trial, dictionaries } = this.model;
    const isSingle = dictionaries.trials.map(({ count, pass_if: rule }) => count < 2 && rule !== "mean");
    const { first, next, attempts, passes, outcome: outcomes, score: scores, threshold: thresholds } = this;
    attempts.fill(1, start);
    for (let c = start; c < first.length; c++) {
      const row = first[c];
      if (next[row] !== -1 || isSingle[trial[row]] === false) {
        this.judge(c);
        continue;
      }
      const one = outcome[row];
      const line = threshold[row];
      if (one === PASS) passes[c] = 1;
      outcomes[c] = one;
      scores[c] = one === ERROR ? NaN : score[row];
      thresholds[c] = line === line ? line : DEFAULT_THRESHOLD;
    }
  }

  /** The verdict over the attempts. @param {number} c */
  judge(c) {
    const { outcome, score, threshold, trial, dictionaries } = this.model;
    const trials = dictionaries.trials[trial[this.first[c]]] ?? { count: 1, pass_if: "majority" };
    const rows = this.rows(c);
    const known = rows.map((one) => threshold[one]).filter((one) => !Number.isNaN(one));
    const judged = verdictOver(trials, known.at(-1) ?? DEFAULT_THRESHOLD, rows.map((one) => outcome[one]), rows.map((one) => score[one]));
    this.attempts[c] = rows.length;
    this.passes[c] = judged.passes;
    this.outcome[c] = judged.outcome;
    this.score[c] = judged.score;
    this.threshold[c] = known.at(-1) ?? DEFAULT_THRESHOLD;
    if (rows.length > 1 || trials.count > 1) this.repeated = true;
  }
}

/**
 * Several attempts as one verdict, as in agentv/trials.py (conformance/trials.json). An attempt that errored or has not
 * run is open: the case passes or not only if that is the same whatever the open attempts would have scored.
 * @param {Trials} trials
 * @param {number} threshold
 * @param {number[]} outcomes
 * @param {number[]} scores
 * @returns {{outcome: number, score: number, passes: number}}
 */
export function verdictOver(trials, threshold, outcomes, scores) {
  const scored = scores.filter((_, i) => outcomes[i] !== ERROR);
  const counted = (/** @type {number} */ outcome) => outcomes.filter((one) => one === outcome).length;
  const passes = counted(PASS);
  const errors = counted(ERROR);
  const count = Math.max(trials.count, outcomes.length);
  const missing = count - outcomes.length;
  const total = scored.reduce((sum, one) => sum + one, 0);
  const score = scored.length ? rounded(total / scored.length) : NaN;

  const reached = (/** @type {number} */ good, /** @type {number} */ sum) => {
    if (trials.pass_if === "any") return good > 0;
    if (trials.pass_if === "all") return good === count;
    if (trials.pass_if === "mean") return rounded(sum / count) >= threshold;
    return 2 * good > count;
  };
  const passed = (/** @type {number} */ good, /** @type {number} */ sum, /** @type {number} */ open) => {
    const worst = reached(good, sum);
    return worst === reached(good + open, sum + open) ? worst : null;
  };
  const verdict = passed(passes, total, errors + missing);
  if (verdict === null) {
    const settled = passed(passes + missing, total + missing, errors) === passed(passes, total, errors);
    return { outcome: settled ? ERROR : INCOMPLETE, score, passes };
  }
  if (verdict) return { outcome: PASS, score, passes };
  const near = passes + counted(BORDERLINE);
  const isNear =
    trials.pass_if === "any" ? near > 0
    : trials.pass_if === "all" ? near === scored.length
    : trials.pass_if === "mean" ? score >= BORDERLINE_SCORE
    : 2 * near > scored.length;
  return { outcome: isNear ? BORDERLINE : FAIL, score, passes };
}

/** To 12 digits, so that scores of 0.8 have a mean of 0.8. @param {number} value */
function rounded(value) {
  return Number(value.toFixed(12));
}
