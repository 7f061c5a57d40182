// Asks before something is lost, and tells what became of it.

import { Refused } from "./api.js";
import { h, show } from "./dom.js";
import { errorInWords, errorNote } from "./words.js";

/** Says it to whoever looks and to whoever listens. @param {string} text @param {"ok" | "bad"} [kind] */
export function say(text, kind = "ok") {
  const place = kind === "bad" ? "alerts" : "notices";
  const note = h("p", { class: `toast ${kind}` }, text, h("button", { type: "button", class: "plain", "aria-label": "Dismiss", on: { click: () => note.remove() } }, "×"));
  document.getElementById(place)?.append(note);
  setTimeout(() => note.remove(), kind === "bad" ? 20_000 : 6_000);
}

/** @param {unknown} error */
export function sayRefused(error) {
  if (!(error instanceof Refused)) throw error;
  say(`${errorInWords(error)}${error.requestId ? ` (request ${error.requestId})` : ""}`, "bad");
}

/**
 * A dialog with a form; it closes when `work` is done, and shows why it is not.
 * @param {{ title: string, body: (import("./dom.js").Child)[], confirm: string, danger?: boolean, work: (form: FormData) => Promise<unknown> }} wanted
 */
export function openDialog({ title, body, confirm, danger = false, work }) {
  const opener = /** @type {HTMLElement | null} */ (document.activeElement);
  const trouble = h("div");
  const button = h("button", { type: "submit", class: danger ? "danger" : "go" }, confirm);
  const close = () => dialog.close();
  const form = h(
    "form",
    {
      method: "dialog",
      on: {
        submit: async (/** @type {SubmitEvent} */ event) => {
          event.preventDefault();
          button.disabled = true;
          show(trouble);
          try {
            await work(new FormData(form));
            close();
          } catch (error) {
            if (!dialog.open) return sayRefused(error); // closed meanwhile: it is said all the same
            if (!(error instanceof Refused)) throw error;
            show(trouble, errorNote(error), fieldErrors(error.fields));
          } finally {
            button.disabled = false;
          }
        },
      },
    },
    h("h2", { id: "dialog-title" }, title),
    ...body,
    trouble,
    h("div", { class: "buttons end" }, h("button", { type: "button", on: { click: close } }, "Cancel"), button),
  );
  const dialog = h("dialog", { "aria-labelledby": "dialog-title" }, form);
  dialog.addEventListener("close", () => {
    dialog.remove();
    if (opener?.isConnected) opener.focus();
  });
  document.body.append(dialog);
  dialog.showModal();
}

/** @param {Refused["fields"]} fields */
export function fieldErrors(fields) {
  if (!fields.length) return null;
  return h("ul", { class: "small" }, fields.map((one) => h("li", {}, h("b", {}, one.field), ": ", one.message)));
}
