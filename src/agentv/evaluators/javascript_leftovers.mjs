// Errors of what a check started and did not await: timers, promises, calls of `process.exit`.
//
// Each error is attributed to the check that caused it, however late it happens, so that it never fails another check.

import { AsyncLocalStorage } from "node:async_hooks";

const ADVICE = "await what the check starts, or catch its errors";
const exit = process.exit.bind(process);
const origin = new AsyncLocalStorage();
let current = null;
let started = 0;

/** The check waits for something that can never happen. */
export class NeverSettledError extends Error {}

/** Thrown by `process.exit` in place of ending the process while another check runs in it. */
class RefusedExit extends Error {}

/**
 * Runs a check: its value, and warnings about errors that it caused elsewhere. `reason` describes an error, `late` is called
 * with errors that happen after the result was returned, and `ended` if the check ends the process.
 */
export async function watched(run, { reason, late, ended }) {
  const check = { reason, late, ended, rejected: new Map(), thrown: [], over: false };
  const failed = new Promise((_, reject) => (check.fail = reject));
  [current, started] = [check, started + 1];
  try {
    const value = await Promise.race([origin.run(check, run), failed]);
    check.over = true;
    await new Promise((done) => setImmediate(done)); // errors that have already happened are reported in this turn
    return { value, warnings: warningsOf(check) };
  } finally {
    current = null;
  }
}

function warningsOf({ rejected, thrown, reason }) {
  return [
    ...[...rejected.values()].map((error) => `a promise that the check did not await was rejected: ${reason(error)}; ${ADVICE}`),
    ...thrown.map((error) => `an error was thrown after the check had returned: ${reason(error)}; ${ADVICE}`),
  ];
}

/** The check that caused what is happening now; null if it is unknown. */
function culprit() {
  return origin.getStore() ?? (started === 1 ? current : null);
}

function reportLate(check, error) {
  const teller = check ?? current;
  if (teller === null) console.error(error);
  else teller.late(`${teller.reason(error)}; the recorded results are not affected. To fix it, ${ADVICE}`, check !== null);
}

/** Attributes the errors of this process from now on. */
export function attributeErrors() {
  process.on("uncaughtException", (error) => {
    const check = culprit();
    if (error instanceof RefusedExit) return;
    if (check === null || check !== current) reportLate(check, error);
    else if (check.over) check.thrown.push(error);
    else check.fail(error);
  });
  process.on("unhandledRejection", (error, promise) => {
    const check = culprit();
    if (error instanceof RefusedExit) return;
    if (check === null || check !== current) reportLate(check, error);
    else {
      check.rejected.set(promise, error); // it may still be awaited
      console.error(`not awaited yet: ${check.reason(error)}`);
    }
  });
  process.on("rejectionHandled", (promise) => current?.rejected.delete(promise));
  process.on("beforeExit", () => {
    if (current === null) return;
    const [error] = current.rejected.values();
    current.fail(error ?? new NeverSettledError("the check awaits a promise that never settles"));
  });
  process.on("exit", (code) => {
    if (current !== null && !current.over && culprit() === current) current.ended(code);
  });
  process.exit = (code) => {
    const check = origin.getStore();
    if (check === undefined || check === current) exit(code);
    reportLate(check, new RefusedExit(`process.exit(${code ?? ""}) was called`));
    throw new RefusedExit("the check has already returned its result");
  };
}
