/** Asks for verdicts as stdin says, [{env, ask}, ...], one after the other; whatever comes of it is not looked at. */

import { readFileSync } from "node:fs";

import { eval_ } from "./support.mjs";

for (const { env, ask } of JSON.parse(readFileSync(0, "utf8"))) {
  const judge = eval_.createJudgeProxyClient({ env, timeoutMs: 20_000 });
  const { questions, ...form } = ask;
  await (questions === undefined ? judge.verdict(ask) : judge.verdicts(questions, form)).catch((error) => {
    if (!(error instanceof eval_.JudgeProxyError)) throw error;
  });
  judge.close();
}
