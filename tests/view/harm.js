// What text has done to the page that shows it; all empty if it is only shown.
() => {
  const unseen = /(?![\n\t])[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\u{e0000}-\u{e007f}]/u;
  const unmarked = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const parent = node.parentElement;
    if (unseen.test(node.data) && !parent.closest(".unseen, .unseen-space, script, .off-screen"))
      unmarked.push(`${parent.tagName}.${parent.className}: ${JSON.stringify(node.data.slice(0, 80))}`);
  }
  const main = document.querySelector("main");
  const foreign = "iframe, object, embed, img, base, form, math, meta[http-equiv=refresh], main [src], [srcdoc], [onload], [onerror], [onfocus]";
  const links = [...document.querySelectorAll("[href]")].map((link) => link.getAttribute("href"));
  return {
    attacked: globalThis.attacked ?? null,
    foreign: [...document.querySelectorAll(foreign)].map((element) => element.tagName),
    links: links.filter((to) => !/^(#|\/static\/|data:,$)/.test(to)),
    mains: document.querySelectorAll("#main").length,
    title: main.querySelector("h1")?.checkVisibility() ?? false,
    failed: main.querySelector("h1")?.textContent === "This page cannot be shown" ? main.textContent : null,
    unmarked,
  };
}
