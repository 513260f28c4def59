// @ts-check
import { start } from "./app.js";
import { el } from "./dom.js";
import { ServerSource } from "./server_source.js";

const source = new ServerSource();
const notice = el("p", { class: "note bad lost", role: "alert" });
source.lost = (/** @type {string|null} */ problem) => {
  notice.textContent = problem;
  if (problem === null) notice.remove();
  else document.getElementById("main")?.before(notice);
};
start(source);
