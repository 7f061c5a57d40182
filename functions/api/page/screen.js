// The part of the page that changes: one screen at a time, drawn again when something has changed or time has passed.

import { h, show } from "./dom.js";

const main = /** @type {HTMLElement} */ (document.getElementById("main"));

/** @type {() => import("./dom.js").Child[]} */
let build = () => [];
let name = "";
let timer = 0;

/** @param {() => import("./dom.js").Child[]} wanted @param {string} title @param {number} [everyMs] ages and times left grow old */
export function present(wanted, title, everyMs = 5000) {
  build = wanted;
  name = location.hash + title;
  document.title = title ? `${title} · Ostler` : "Ostler";
  clearInterval(timer);
  timer = window.setInterval(() => {
    if (!document.hidden) redraw();
  }, everyMs);
  redraw();
}

export function redraw() {
  show(main, h("div", { "data-key": name }, build()));
}

/** After a change of screens a keyboard or a screen reader begins at its top. */
export function focusScreen() {
  window.scrollTo(0, 0);
  main.querySelector("h1")?.focus({ preventScroll: true });
}

export function screenWidth() {
  return main.clientWidth;
}

/** Where something will be, while it is read. */
export function skeleton() {
  return h("div", { class: "skeleton", "aria-hidden": "true" }, [1, 2, 3, 4].map(() => h("div")));
}
