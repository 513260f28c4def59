// @ts-check
// Can the judges be trusted? What they cost, how they score, how noisy they are, and whether they agree: #/run/ID/judges

import { el } from "./dom.js";
import { runName } from "./format.js";
import { address, go } from "./router.js";
import { sectionView } from "./sections.js";

/** @type {import("./app.js").Page} */
export const page = {
  matches: (parts) => parts[0] === "run" && parts[2] === "judges" && parts.length === 3,
  async open(view, place) {
    const run = place.parts[1];
    const [{ info }, data] = await Promise.all([view.runs.get(run), view.source.judges(run)]);
    const review = address(["run", run, "review"]);
    return {
      element: el(
        "section",
        { class: "page judges" },
        el("div", { class: "head" }, el("h1", null, "Judges"), el("a", { href: review, "aria-keyshortcuts": "l" }, "Label answers")),
        el("p", { class: "lead" }, data.lead),
        info.head.status === "running" && el("p", { class: "note" }, "This run is being written. Reload the page for the newest numbers."),
        el("ul", { class: "muted" }, data.notes.map((note) => el("li", null, note))),
        data.sections.map(sectionView),
      ),
      title: "Judges",
      trail: [
        { label: "Runs", to: address([]) },
        { label: runName(info.head), to: address(["run", run]) },
      ],
      keys: [{ key: "l", does: "label answers", press: () => go(review) }],
    };
  },
};
