// @ts-check
// The page of a run: what happened in words, the baseline, filters, and all cases. What is shown is in the address:
// f (filter), q (search), in=all (search the record), s (sort), vs (baseline), cols (columns).

import { address } from "./router.js";
import { RunView } from "./run_view.js";
import { runName } from "./format.js";

/** @type {import("./app.js").Page} */
export const page = {
  matches: (parts) => parts[0] === "run" && parts.length === 2,
  async open(view, place) {
    const model = await view.runs.early(place.parts[1] ?? "");
    const run = new RunView(view, model, place);
    return {
      element: run.element,
      title: runName(model.info.head),
      trail: [{ label: "Runs", to: address([]) }],
      keys: run.keys(),
      update: (next) => (run.show(next), true),
      close: () => run.close(),
    };
  },
};
