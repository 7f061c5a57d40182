// Start, stop, restart and delete: each says what it means before it happens.

import { may, Refused } from "./api.js";
import { openDialog, say, sayRefused } from "./dialogs.js";
import { h } from "./dom.js";
import { money, plural } from "./format.js";
import { operate } from "./instances.js";
import { openLimits } from "./limits.js";
import { pollNow } from "./polling.js";
import { actionsFor, perHour, soFar, UP } from "./words.js";

/** @param {Instance} one @param {() => void} onChange */
export function actionButtons(one, onChange) {
  if (!may("write")) return [];
  const can = actionsFor(one);
  /** @param {string} label @param {() => void} click @param {string} [kind] */
  const button = (label, click, kind = "") => h("button", { type: "button", class: kind, "data-key": label, on: { click } }, label);
  return [
    can.start && button("Start", () => void run(one, "start", onChange), "go"),
    can.extend && button("Limits…", () => openLimits(one, onChange)),
    can.restart && button("Restart", () => askRestart(one, onChange)),
    can.stop && button("Stop", () => void run(one, "stop", onChange)),
    can.remove && button("Delete…", () => askDelete([one], onChange), "danger-quiet"),
  ];
}

/** @param {Instance} one @param {"start" | "stop" | "restart"} what @param {() => void} onChange */
async function run(one, what, onChange) {
  try {
    const told = await operate(one, what, onChange);
    say(`${one.name}: ${told.message}`);
    pollNow();
  } catch (error) {
    sayRefused(error);
  }
}

/** @param {Instance} one @param {() => void} onChange */
function askRestart(one, onChange) {
  openDialog({
    title: `Restart ${one.name}?`,
    body: [h("p", {}, "The application inside is interrupted. The disk stays, and so does the price.")],
    confirm: "Restart",
    work: async () => {
      say(`${one.name}: ${(await operate(one, "restart", onChange)).message}`);
      pollNow();
    },
  });
}

/** @param {Instance[]} ones @param {() => void} onChange */
export function askStop(ones, onChange) {
  const stoppable = ones.filter((one) => actionsFor(one).stop);
  const saved = stoppable.reduce((sum, one) => sum + (perHour(one) ?? 0), 0);
  openDialog({
    title: `Stop ${plural(stoppable.length, "machine")}?`,
    body: [h("p", {}, `They can be started again while Novita has room for them; their disks stay. ${money(saved)} per hour less.`), names(stoppable), leftOut(ones, stoppable, "cannot be stopped now")],
    confirm: `Stop ${stoppable.length}`,
    work: () => each(stoppable, "stop", onChange),
  });
}

/** @param {Instance[]} ones @param {() => void} onChange */
export function askDelete(ones, onChange) {
  const deletable = ones.filter((one) => actionsFor(one).remove);
  const [only] = deletable;
  const one = deletable.length === 1 && only ? only : null;
  const cost = soFar({ soFarUsd: String(deletable.reduce((sum, each) => sum + Number(each.cost?.soFarUsd ?? 0), 0)), perHourUsd: "", estimated: deletable.some((each) => each.cost?.estimated) });
  openDialog({
    title: one ? `Delete ${one.name}?` : `Delete ${plural(deletable.length, "machine")}?`,
    body: [one ? whatIsLost(one) : h("p", {}, `They have cost ${cost}. What is on their disks is lost; this cannot be undone.`), one ? null : names(deletable), leftOut(ones, deletable, "are protected or already going")],
    confirm: one ? "Delete" : `Delete ${deletable.length}`,
    danger: true,
    work: () => each(deletable, "delete", onChange),
  });
}

/** @param {Instance} one */
function whatIsLost(one) {
  const disk = one.rootfsSize ? `Its disk (${one.rootfsSize} GB)` : "Its disk";
  const where = one.productName ? ` ${UP.includes(one.status) ? "runs on" : "has"} ${one.productName}${one.region ? ` in ${one.region}` : ""}` : " has no machine yet";
  const cost = one.cost ? ` and has cost ${soFar(one.cost)}` : "";
  return h("p", {}, `${one.name}${where}${cost}. ${one.novitaInstanceId ? `${disk} is lost; this cannot be undone.` : "Nothing more is bought for it."}`);
}

/** @param {Instance[]} ones */
function names(ones) {
  return h("p", { class: "soft small" }, ones.slice(0, 12).map((one) => one.name).join(", "), ones.length > 12 ? ` and ${ones.length - 12} more` : "");
}

/** @param {Instance[]} all @param {Instance[]} some @param {string} reason */
function leftOut(all, some, reason) {
  return all.length > some.length ? h("p", { class: "soft small" }, `${all.length - some.length} of those selected ${reason}.`) : null;
}

/** Asked again where it was only too much at once: then nothing was done. @param {() => Promise<unknown>} ask */
async function patiently(ask) {
  for (let wait = 1; ; wait *= 2) {
    try {
      return await ask();
    } catch (error) {
      if (!(error instanceof Refused) || error.status !== 429 || wait > 16) throw error;
      await new Promise((done) => setTimeout(done, 1000 * Math.max(wait, error.retryAfter)));
    }
  }
}

/** Few at a time, and all of them whatever one answers. @param {Instance[]} ones @param {"stop" | "delete"} what @param {() => void} onChange */
async function each(ones, what, onChange) {
  /** @type {Refused[]} */
  const refused = [];
  const waiting = [...ones];
  const worker = async () => {
    for (let one = waiting.shift(); one; one = waiting.shift()) {
      await patiently(() => operate(one, what, onChange)).catch((error) => {
        if (!(error instanceof Refused)) throw error;
        refused.push(error);
      });
    }
  };
  await Promise.all([worker(), worker(), worker(), worker()]);
  pollNow();
  if (refused[0]) throw new Refused(refused[0].status, refused[0].code, `${refused.length} of ${ones.length} refused: ${refused[0].message}`, { requestId: refused[0].requestId });
  say(`${plural(ones.length, "machine")} told to ${what === "stop" ? "stop" : "go"}`);
}
