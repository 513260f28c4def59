// @ts-check
// The frame of all pages: navigation, theme, keyboard, and which page is open. A new page is one file and one line in
// PAGES.

import { aboutFile } from "./about.js";
import { announce, button, el, show } from "./dom.js";
import { Keyboard } from "./keys.js";
import { unfold } from "./letters.js";
import { page as casePage } from "./page_case.js";
import { page as comparePage } from "./page_compare.js";
import { page as judgesPage } from "./page_judges.js";
import { page as reviewPage } from "./page_review.js";
import { page as runPage } from "./page_run.js";
import { page as runsPage } from "./page_runs.js";
import { address, go, here } from "./router.js";
import { Runs } from "./run_model.js";

/** @typedef {import("./types.js").Source} Source */
/** @typedef {import("./router.js").Place} Place */
/** @typedef {import("./keys.js").Key} Key */

/**
 * What pages get.
 * @typedef {Object} View
 * @property {Source} source
 * @property {Runs} runs Loaded runs, kept between pages.
 */

/**
 * An open page. `update` is called when the address changes and still names the same page of the same subject; if it
 * returns false, or there is none, the page is opened again.
 * @typedef {Object} OpenPage
 * @property {HTMLElement} element
 * @property {string} title
 * @property {{label: string, to: string}[]} trail The pages above this one.
 * @property {Key[]} [keys]
 * @property {(place: Place) => boolean} [update]
 * @property {() => void} [print] Prepares the page for printing. Folded text is opened after it.
 * @property {() => void} [close]
 */

/**
 * @typedef {Object} Page
 * @property {(parts: string[]) => boolean} matches
 * @property {(view: View, place: Place) => Promise<OpenPage>} open
 */

/** @type {Page[]} */
const PAGES = [runsPage, runPage, casePage, comparePage, judgesPage, reviewPage];

const THEME = "agentv-theme";

/** Light if the page is dark, and dark if it is light. It starts as the system is set, unless one was chosen before. */
function changeTheme() {
  const { dataset } = document.documentElement;
  const isDark = dataset.theme ? dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  dataset.theme = isDark ? "light" : "dark";
  announce(`The page is ${dataset.theme}`);
  try {
    localStorage.setItem(THEME, dataset.theme);
  } catch {
    // Browsers can forbid files to store anything: then the choice is for this page.
  }
}

/** The theme that was chosen before; empty if none was. */
function chosenTheme() {
  try {
    return localStorage.getItem(THEME) ?? "";
  } catch {
    return "";
  }
}

/**
 * Show the pages of a source in the document.
 * @param {Source} source
 */
export function start(source) {
  /** @type {View} */
  const view = { source, runs: new Runs(source) };
  /** @type {OpenPage|null} */
  let open = null;
  let subject = "";
  let opening = 0;
  let settled = 0;
  document.documentElement.dataset.theme = chosenTheme();
  const keyboard = new Keyboard();
  const main = el("main", { id: "main", tabindex: "-1" });
  const trail = el("ol", { class: "trail" });
  document.body.prepend(
    el("a", { class: "skip", href: "#main", onclick: (/** @type {Event} */ event) => (event.preventDefault(), main.focus()) }, "Skip to content"),
    el(
      "header",
      { class: "top" },
      el("a", { class: "brand", href: address([]) }, "agentv"),
      el("nav", { "aria-label": "Where you are" }, trail),
      button("Light / dark", changeTheme, { class: "quiet", "aria-keyshortcuts": "t" }),
      button("Keys ?", () => keyboard.help(), { class: "quiet", "aria-keyshortcuts": "?" }),
    ),
    main,
    ...(source.about ? [aboutFile(source.about, source.version)] : []),
    el("div", { id: "announcements", role: "status", "aria-live": "polite", class: "off-screen" }),
  );
  keyboard.everywhere.push(
    { key: "t", does: "change between light and dark", press: changeTheme },
    { key: "r", does: "go to all runs", press: () => go(address([])) },
    { key: "Escape", does: "go up one page", press: () => open?.trail.at(-1) && go(open.trail[open.trail.length - 1].to) },
  );

  async function arrive() {
    clearTimeout(settled);
    const place = here();
    const page = PAGES.find((one) => one.matches(place.parts));
    const number = ++opening; // A page that is still being opened is not shown any more.
    main.removeAttribute("aria-busy");
    if (!page) return fail("There is no such page", `Nothing is at ${location.hash}.`);
    if (open?.update && subject === JSON.stringify(place.parts) && open.update(place)) return;
    main.setAttribute("aria-busy", "true");
    try {
      const opened = await page.open(view, place);
      if (number !== opening) return opened.close?.();
      leave();
      open = opened;
      subject = JSON.stringify(place.parts);
      keyboard.page = opened.keys ?? [];
      show(main, opened.element);
      show(trail, [...opened.trail.map((step) => el("li", null, el("a", { href: step.to }, step.label))), el("li", { "aria-current": "page" }, opened.title)]);
      document.title = `${opened.title} · agentv`;
      announce(opened.title);
      window.scrollTo(0, history.state?.scroll ?? 0);
      if (document.activeElement === document.body) main.focus({ preventScroll: true });
    } catch (error) {
      if (number === opening) fail("This page cannot be shown", /** @type {Error} */ (error).message);
    }
    if (number === opening) main.removeAttribute("aria-busy");
  }

  /** Show a page that only says something. @param {string} title @param {string} text */
  function fail(title, text) {
    leave();
    show(trail);
    document.title = `${title} · agentv`;
    show(main, el("section", { class: "page narrow" }, el("h1", null, title), el("p", { class: "lead" }, text), el("p", null, el("a", { href: address([]) }, "All runs"))));
  }

  function leave() {
    open?.close?.();
    open = null;
    keyboard.page = [];
  }

  addEventListener("hashchange", arrive);
  /** @type {HTMLDetailsElement[]} */
  let folded = [];
  addEventListener("beforeprint", () => {
    open?.print?.();
    folded = [.../** @type {NodeListOf<HTMLDetailsElement>} */ (main.querySelectorAll("details:not([open])"))];
    unfold(main, true, true);
  });
  addEventListener("afterprint", () => folded.forEach((fold) => (fold.open = false)));
  const remember = () => main.hasAttribute("aria-busy") || history.replaceState({ ...history.state, scroll: scrollY }, "");
  addEventListener("scroll", () => (clearTimeout(settled), (settled = window.setTimeout(remember, 150))), { passive: true });
  history.scrollRestoration = "manual";
  if (location.hash === "" && source.first) history.replaceState(null, "", source.first);
  void arrive();
}
