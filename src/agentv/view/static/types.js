// @ts-check
// Shapes of the data that the pages show. The Python modules in src/agentv/view write them, both as replies of the
// server and as blocks of the HTML file; names are those of run directories. There is no code here.

/**
 * A run as listed by `agentv runs --json`.
 * @typedef {Object} RunHead
 * @property {string} run_id
 * @property {string} address The id that addresses contain: the name of the run's directory.
 * @property {string|null} name
 * @property {string|null} experiment
 * @property {string|null} note
 * @property {string} status `finished`, `running`, `interrupted`, `failed`, `out of budget` or `broken`.
 * @property {string|null} problem Why the run cannot be read.
 * @property {string|null} started_at ISO 8601 with time zone.
 * @property {string|null} finished_at
 * @property {string[]} suites
 * @property {string[]} targets
 * @property {number|null} total Cases (each target counts), not attempts.
 * @property {number|null} passed
 * @property {number|null} borderline
 * @property {number|null} failed
 * @property {number|null} errors
 * @property {number|null} not_run
 * @property {number|null} mean_score
 * @property {[number, number]|null} mean_interval
 * @property {[number, number]|null} pass_interval Wilson interval of the pass rate, 95%.
 * @property {number|null} cost_usd Targets and judges, as far as known.
 * @property {boolean} cost_complete
 * @property {number|null} judge_calls
 * @property {number|null} duration_seconds
 * @property {boolean} scripted Whether answers come from the mock provider.
 * @property {string|null} replayed
 * @property {{commit?: string, branch?: string, dirty?: boolean}|null} git
 * @property {string|null} agentv The version that wrote the run.
 */

/**
 * @typedef {Object} RunList
 * @property {string} version The version of agentv that serves or wrote this.
 * @property {RunHead[]} runs Newest first.
 */

/**
 * What the run page needs besides the columns.
 * @typedef {Object} RunInfo
 * @property {RunHead} head
 * @property {string[]} notes Sentences that readers of the numbers should know: scripted model, rows missing, and so on.
 * @property {string[]} problems Lines of the record that could not be read, in words.
 * @property {number|null} planned Rows (attempts) of the whole run.
 * @property {{spent_usd: number, limit_usd: number|null, calls: number, limit_calls: number|null}|null} budget
 * @property {Repeats|null} repeats Statistics over attempts, from the summary of the run.
 * @property {string|null} baseline The address of the run that is compared by default: the last finished run before
 *   this one with the same suites and at least 80% of its cases.
 * @property {RunHead[]} baselines Runs that can be compared with this one, newest first.
 * @property {{name: string, sha256: string, bytes: number}[]} ledger The files of the record; empty while it is written.
 * @property {{title: string, command: string}[]} commands Commands to run it again, resume it, and so on.
 * @property {{name: string, path: string, cases: number, judges: string[]}[]} suites
 * @property {string[]} prompts In the order of the suites.
 */

/**
 * @typedef {Object} Repeats
 * @property {number} cases
 * @property {number} count
 * @property {string[]} pass_if
 * @property {Record<string, {value: number, interval: number[]}>} pass_at_k
 * @property {Record<string, {value: number, interval: number[]}>} pass_hat_k
 * @property {number|null} spread
 */

/** @typedef {Int8Array|Int16Array|Int32Array|Float64Array|Uint8Array} Numbers A column. What is unknown is NaN. */
/** @typedef {import("./packed_columns.js").TextColumn} TextColumn */

/**
 * The rows of a run as columns: position i of every column is row i. They are sent as bytes: see packed_columns.js. Dictionaries (`suites`, `targets`, ...) are
 * complete in every reply and only grow within a generation, so that replies with `start` > 0 can be appended.
 * @typedef {Object} ColumnsData
 * @property {3} format
 * @property {() => Promise<unknown>} complete Reads the questions and reasons; the other columns are there already.
 * @property {string} generation Changes when rows were replaced; then everything is loaded again.
 * @property {number} start The index of the first row in this reply.
 * @property {number} count Rows in this reply.
 * @property {string[]} suites
 * @property {string[]} targets Variants: targets, each with its prompt if the suite has prompts, such as `assistant [short]`.
 * @property {[target: string, prompt: string|null][]} variants The parts of each of them.
 * @property {string[]} evaluators
 * @property {string[]} stages Stages of errors: `target`, `evaluator`, `run`.
 * @property {string[]} tags
 * @property {string[]} tools Names of tools that were called, the 50 most used.
 * @property {number[][]} tag_sets Each is a list of indices into `tags`.
 * @property {{count: number, pass_if: string, stop_early: boolean}[]} trials
 * @property {Record<string, string[]>} metadata Values of each metadata key (at most 1,000 different ones).
 * @property {string[]} metadata_left_out Keys with more values.
 * @property {TextColumn} eval_id
 * @property {TextColumn} question The first 120 characters of what was asked, in one line; '' if unknown.
 * @property {Numbers} suite Index into `suites`.
 * @property {Numbers} target
 * @property {Numbers} attempt
 * @property {Numbers} score
 * @property {Numbers} outcome 0 pass, 1 borderline, 2 fail, 3 error.
 * @property {Numbers} threshold
 * @property {Numbers} trial Index into `trials`.
 * @property {Numbers} stage Index into `stages`, -1 without an error.
 * @property {TextColumn} reason Why the row lost points or errored, in one line of at most 160 characters; '' if nothing.
 * @property {Numbers} duration_ms
 * @property {Numbers} started_at Milliseconds since 1970.
 * @property {Numbers} cost_usd Of the target; NaN if unknown.
 * @property {Numbers} judge_cost_usd
 * @property {Numbers} judge_calls
 * @property {Numbers} tokens
 * @property {Numbers} answer_length Characters.
 * @property {Numbers} answer Rows with the same number have the same answer.
 * @property {Numbers} tag_set Index into `tag_sets`.
 * @property {Numbers[]} evaluator_scores One column per name in `evaluators`; NaN if it did not judge the row.
 * @property {Numbers[]} tool_calls One column per name in `tools`.
 * @property {Record<string, Numbers>} metadata_index One column per key of `metadata`; -1 without a value.
 */

/**
 * One row with everything that was recorded about it: `agentv show --json`, and how the score was made.
 * @typedef {Object} Detail
 * @property {string} run_id
 * @property {Row} row
 * @property {CaseRecord|null} case
 * @property {JudgeCall[]} judge_calls
 * @property {string[]} arithmetic Sentences such as `0.5 x 0.80 + 0.5 x 0.20 = 0.50, needs 0.80`.
 * @property {{title: string, command: string}[]} commands
 * @property {number} [execution] How often the case was judged. Calls of earlier times are in `judge_calls`, too.
 */

/**
 * @typedef {Object} Message
 * @property {string} role
 * @property {any} [content] Text, or parts.
 * @property {string} [name]
 * @property {string} [timestamp]
 * @property {ToolCall[]} [tool_calls]
 */

/**
 * @typedef {Object} ToolCall
 * @property {string} tool
 * @property {any} [input]
 * @property {any} [output]
 * @property {string} [id]
 * @property {string} [timestamp]
 */

/**
 * @typedef {Object} EvaluatorResult
 * @property {string} name
 * @property {string} type
 * @property {number} score
 * @property {number} weight
 * @property {string} verdict
 * @property {boolean} [required]
 * @property {string|null} [error]
 * @property {string[]} [warnings]
 * @property {string[]} [hits]
 * @property {string[]} [misses]
 * @property {string} [reasoning]
 * @property {any} [details]
 * @property {number} [duration_ms]
 * @property {any} [judge_proxy]
 * @property {any} [judge]
 * @property {EvaluatorResult[]} [evaluator_results]
 * @property {{node?: string, tries?: number, lost_on?: string[]}} [execution]
 */

/**
 * A line of results.jsonl.
 * @typedef {Object} Row
 * @property {string} run_id
 * @property {string} eval_id
 * @property {string} suite
 * @property {string} target
 * @property {number} attempt
 * @property {number} score
 * @property {string} verdict
 * @property {{stage: string, message: string, not_called?: boolean}|null} [error]
 * @property {string} [candidate_answer]
 * @property {Message[]} [output_messages]
 * @property {string[]} [hits]
 * @property {string[]} [misses]
 * @property {string} [reasoning]
 * @property {EvaluatorResult[]} [evaluator_results]
 * @property {any} [trace_summary]
 * @property {any} [token_usage]
 * @property {number|null} [cost_usd]
 * @property {number|null} [duration_ms]
 * @property {string} [started_at]
 * @property {Record<string, any>} [metadata]
 * @property {string|null} [finish_reason]
 * @property {string[]} [warnings]
 * @property {number|null} [threshold]
 * @property {string|null} [model]
 * @property {string|null} [case_sha256]
 * @property {string|null} [conversation_id]
 * @property {string|null} [prompt]
 * @property {Turn[]} [turns]
 * @property {string|null} [replayed] The id of the run whose answer and judge replies were used again.
 */

/**
 * A turn of a conversation.
 * @typedef {Object} Turn
 * @property {Message[]} [input_messages]
 * @property {string} [answer]
 * @property {Message[]} [output_messages]
 * @property {any} [token_usage]
 * @property {number|null} [cost_usd]
 * @property {number|null} [duration_ms]
 * @property {number|null} [user_cost_usd] Of the model that played the user.
 * @property {boolean} [unanswered] The row errored in this turn.
 */

/**
 * A line of cases.jsonl.
 * @typedef {Object} CaseRecord
 * @property {string} suite
 * @property {string} eval_id
 * @property {string} sha256
 * @property {Message[]} input_messages
 * @property {string|null} [expected_outcome]
 * @property {Message[]} [expected_messages]
 * @property {string|null} [reference_answer]
 * @property {number|null} [threshold]
 * @property {EvaluatorRecord[]} [evaluators]
 * @property {Record<string, any>} [metadata]
 * @property {string[]} [tags]
 * @property {string|null} [prompt]
 * @property {{messages: Message[], expected_outcome?: string|null, reference_answer?: string|null}[]} [turns]
 * @property {{target: string, persona: string, max_turns: number, stop_when?: string|null}|null} [user]
 * @property {string} [file]
 * @property {number} [line]
 */

/**
 * @typedef {Object} EvaluatorRecord
 * @property {string} name
 * @property {string} type
 * @property {number} [weight]
 * @property {boolean} [required]
 * @property {number|null} [threshold]
 * @property {any} [options]
 * @property {EvaluatorRecord[]} [members]
 */

/**
 * A line of judge_calls.jsonl.
 * @typedef {Object} JudgeCall
 * @property {string} evaluator
 * @property {number} index
 * @property {string} target
 * @property {string} status `ok`, `failed`, `timeout` or `cancelled`.
 * @property {number} [execution]
 * @property {string|null} [code]
 * @property {number} [retries]
 * @property {boolean} [cache_hit]
 * @property {any} [token_usage]
 * @property {number|null} [cost_usd]
 * @property {string} [started_at]
 * @property {number} [waited_ms]
 * @property {number} [duration_ms]
 * @property {string|null} [model]
 * @property {string|null} [finish_reason]
 * @property {string|null} [question]
 * @property {string|null} [system_prompt]
 * @property {Message[]} [messages]
 * @property {any} [options]
 * @property {any} [reply]
 * @property {string|null} [error]
 * @property {string|null} [asked_model] The model that a client library asked for.
 * @property {Record<string, string>|null} [dropped_options] Options of a client library that the target did not get.
 * @property {boolean} [replayed]
 * @property {boolean} [batch]
 * @property {string} [request_sha256]
 */

/**
 * The same case with the same target in another run, oldest first; attempts as one.
 * @typedef {Object} HistoryEntry
 * @property {string} address
 * @property {string|null} name
 * @property {string|null} started_at
 * @property {number|null} score Mean over the scored attempts.
 * @property {number} outcome As in the columns.
 * @property {number} attempts
 * @property {number} passes
 * @property {boolean} is_this
 * @property {string[]} changed What measures the scores and has changed since the run before, in words.
 */

/**
 * @typedef {Object} SearchResult
 * @property {number[]} rows Ascending.
 * @property {boolean} complete False if the search was stopped, or rows are not in the file.
 */

/**
 * Text, or text with a link (`href`), a class (`kind`) or a tooltip.
 * @typedef {string|{text: string, kind?: string, href?: string, title?: string}} Part
 */

/** @typedef {Part|Part[]} Cell */

/**
 * A part of a page that Python wrote: one of a paragraph, a list, a table, commands, a chart, a fold, or blocks below
 * each other.
 * @typedef {Object} Block
 * @property {string} [kind] A class.
 * @property {string} [title]
 * @property {Part[]} [text]
 * @property {Cell[]} [items]
 * @property {string} [caption]
 * @property {string[]} [head]
 * @property {Cell[][]} [rows]
 * @property {{title: string, command: string}[]} [commands]
 * @property {Effect[]} [effects]
 * @property {string} [axis] What the axis of the effects means.
 * @property {number[]} [counts] Of scores in bins from 0 to 1.
 * @property {string|null} [field] What a filter of the run calls these scores.
 * @property {string} [run]
 * @property {string} [summary] Of a fold.
 * @property {boolean} [open]
 * @property {Block[]} [blocks]
 */

/**
 * A difference with its interval.
 * @typedef {Object} Effect
 * @property {string} label
 * @property {number|null} mean
 * @property {[number, number]|null} interval
 * @property {number} cases
 * @property {string} conclusion
 * @property {string} [note] The p-value, corrected for the number of groups.
 * @property {string} [href]
 */

/**
 * What the pages need of a comparison; there is more for other programs.
 * @typedef {Object} CompareData
 * @property {RunHead} a The baseline.
 * @property {RunHead} b The candidate.
 * @property {(string|null)[]} prompts Of the baseline and the candidate, if these are prompts of one run.
 * @property {Block[]} sections The verdict, what changed, and groups.
 * @property {Block|null} left_out Cases that cannot be compared.
 * @property {Pairs} pairs
 * @property {Group[]} groups
 */

/**
 * Cases that were scored in both runs, as columns.
 * @typedef {Object} Pairs
 * @property {number} count
 * @property {string[]} suite
 * @property {string[]} eval_id
 * @property {string[]} target1
 * @property {string[]} target2
 * @property {number[]} score1
 * @property {number[]} score2
 * @property {number[]} passed1 0 or 1.
 * @property {number[]} passed2
 * @property {number[]} outcome 0 tie, 1 win, 2 loss.
 * @property {string[]} reason
 * @property {number[]} row1 A row of the case in the baseline (its first attempt).
 * @property {number[]} row2
 */

/**
 * @typedef {Object} Group
 * @property {string} by `suite`, `target`, `prompt`, `tag` or `metadata.KEY`.
 * @property {string} name
 */

/**
 * What the page needs of the judges of a run; there is more for other programs.
 * @typedef {Object} JudgesData
 * @property {string} lead
 * @property {string[]} notes
 * @property {Block[]} sections
 */

/**
 * A line of labels.jsonl.
 * @typedef {Object} Label
 * @property {string} suite
 * @property {string} eval_id
 * @property {string} target
 * @property {number} attempt
 * @property {'pass'|'fail'|'unsure'|null} label null removes an earlier label.
 * @property {string} note
 * @property {string} by
 * @property {string} at
 * @property {string} answer_sha256
 * @property {boolean} [current] Whether the answer of the row still has this hash.
 */

/**
 * @typedef {Object} TrendData
 * @property {TrendLine[]} lines As `agentv trend --json`.
 */

/**
 * @typedef {Object} TrendLine
 * @property {string} suite
 * @property {string} target
 * @property {TrendPoint[]} points
 * @property {{run_id: string, reason: string}[]} left_out
 * @property {TrendTest[]} tests Of the latest run.
 * @property {boolean} degrading
 * @property {string|null} note
 */

/**
 * @typedef {Object} TrendTest
 * @property {string} against In words, such as `the run before`.
 * @property {number} cases
 * @property {number|null} mean_delta
 * @property {[number, number]|null} interval
 * @property {string} conclusion As in CompareSummary.
 */

/**
 * @typedef {Object} TrendPoint
 * @property {string} run_id The address of the run.
 * @property {string|null} name
 * @property {string|null} started_at
 * @property {number|null} mean_score
 * @property {[number, number]|null} mean_interval
 * @property {number} shared_cases
 * @property {number} errors
 * @property {string[]} changed
 */

/**
 * The state of a run that may be being written.
 * @typedef {Object} LiveState
 * @property {string} status
 * @property {string} generation
 * @property {number} rows
 * @property {number|null} planned
 * @property {number} errors
 * @property {number} spent_usd
 * @property {number|null} limit_usd
 * @property {number} judge_calls
 * @property {number|null} limit_calls
 * @property {number|null} rows_per_second
 * @property {number|null} eta_seconds
 */

/**
 * What the HTML file says about itself.
 * @typedef {Object} AboutFile
 * @property {string} written_at
 * @property {string[]} notes In sentences: what was left out or masked.
 * @property {{run: string, files: {name: string, sha256: string, bytes: number}[]}[]} ledger SHA-256 of the files that it
 *   was made from; no files for a run that was still being written.
 */

/**
 * Where pages get their data from. `server_source.js` asks the local server, `file_source.js` reads the blocks of the
 * HTML file. Runs are named by their address. All promises are rejected with an `Error` whose message can be shown.
 * @typedef {Object} Source
 * @property {'server'|'file'} kind
 * @property {string} version
 * @property {AboutFile|null} about null for the server.
 * @property {string|null} first The address of the page to open if none is in the location.
 * @property {() => Promise<RunList>} runs
 * @property {() => Promise<TrendData>} trend
 * @property {(run: string) => Promise<RunInfo>} run
 * @property {(run: string, start?: number) => Promise<ColumnsData>} columns
 * @property {(run: string, row: number) => Promise<Detail|null>} detail null if the file does not have this row.
 * @property {(run: string, row: number) => void} [ahead] Loads the details of a row that is likely to be opened next.
 * @property {(run: string, row: number) => Promise<HistoryEntry[]>} history
 * @property {(run: string, text: string, signal?: AbortSignal, progress?: (share: number) => void) => Promise<SearchResult>} search
 * @property {(a: string, b: string) => Promise<CompareData|null>} compare Runs, or prompts of one as `RUN [prompt]`; null if the file does not have this comparison.
 * @property {(run: string) => Promise<JudgesData>} judges
 * @property {() => Promise<string>} user The name for new labels unless the reader chooses another; '' in a file.
 * @property {(run: string) => Promise<Label[]>} labels The latest label of each row and person.
 * @property {(run: string, label: Label) => Promise<Label>} addLabel In a file, kept in memory.
 * @property {(run: string, changed: (state: LiveState) => void) => () => void} follow Returns how to stop.
 */

export {};
