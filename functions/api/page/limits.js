// When an instance ends by itself: its limits as they are asked for, and more time for what runs.

import { change } from "./api.js";
import { openDialog, say } from "./dialogs.js";
import { h } from "./dom.js";
import { clock, plural } from "./format.js";
import { keep } from "./instances.js";
import { pollNow } from "./polling.js";

const DURATIONS = [
  { name: "stopAfter", label: "Stop after it has run for", hint: "90m, 8h, 3d" },
  { name: "deleteAfter", label: "Delete so long after its first run", hint: "3d" },
  { name: "idleStopAfter", label: "Stop when unused for", hint: "30m" },
  { name: "deleteAfterStopped", label: "Delete when stopped for", hint: "1d" },
];
const TIMES = [
  { name: "stopAt", label: "Stop at (your time)" },
  { name: "deleteAt", label: "Delete at (your time)" },
];
const HOURS = [1, 2, 4, 8];

/** @type {Record<string, number>} */
const UNITS = { d: 86_400, h: 3600, m: 60, s: 1 };

/** @typedef {Record<string, unknown>} Wanted by the names of the API; null takes one away */

/** @param {Limits} [limits] */
export function limitFields(limits = {}) {
  const known = /** @type {Wanted} */ (limits);
  return DURATIONS.map(({ name, label, hint }) => field(label, { name, value: String(known[name] ?? ""), placeholder: hint }));
}

/** @param {Limits} limits */
function timeFields(limits) {
  const known = /** @type {Record<string, string | undefined>} */ (limits);
  return TIMES.map(({ name, label }) => field(label, { name, value: localTime(known[name]), type: "datetime-local" }));
}

/** @param {string} label @param {import("./dom.js").Attributes} attributes */
function field(label, attributes) {
  return h("label", { class: "field" }, h("span", {}, label), h("input", { autocomplete: "off", ...attributes }));
}

/** What the fields say; with `before`, an emptied one is taken away. @param {FormData} form @param {Limits} [before] */
export function limitsFrom(form, before = {}) {
  /** @type {Wanted} */
  const wanted = {};
  const known = /** @type {Record<string, string | undefined>} */ (before);
  for (const { name } of DURATIONS) note(wanted, name, text(form, name), String(known[name] ?? ""));
  for (const { name } of TIMES) note(wanted, name, text(form, name), localTime(known[name]), (time) => new Date(time).toISOString());
  // It says what unused means, and nothing without the limit.
  if (wanted.idleStopAfter === null && before.idleGpuBelow !== undefined) wanted.idleGpuBelow = null;
  return wanted;
}

/** @param {Wanted} wanted @param {string} name @param {string} said @param {string} before @param {(said: string) => string} [asSent] */
function note(wanted, name, said, before, asSent = (value) => value) {
  if (said !== before) wanted[name] = said ? asSent(said) : null;
}

/** @param {FormData} form @param {string} name */
function text(form, name) {
  return String(form.get(name) ?? "").trim();
}

/** As an input of times has it. @param {string | undefined} time */
function localTime(time) {
  if (!time) return "";
  const moment = new Date(time);
  return new Date(moment.getTime() - moment.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

/** The end that comes first, and why. @param {Instance} one */
function firstEnd(one) {
  const { stopAt, stopReason, deleteAt, deleteReason } = one.expiry ?? {};
  if (stopAt && (!deleteAt || stopAt <= deleteAt)) return { at: stopAt, what: "stops", reason: stopReason };
  return deleteAt ? { at: deleteAt, what: "is deleted", reason: deleteReason } : null;
}

/** Every limit that time alone brings about, so much later; a time that has passed moves nothing. @param {Limits} limits @param {number} seconds */
function moved(limits, seconds) {
  /** @type {Wanted} */
  const wanted = {};
  for (const name of /** @type {const} */ (["stopAfter", "deleteAfter"])) {
    const before = secondsIn(limits[name]);
    if (before) wanted[name] = durationText(before + seconds);
  }
  for (const name of /** @type {const} */ (["stopAt", "deleteAt"])) {
    const before = Date.parse(limits[name] ?? "");
    if (before > Date.now()) wanted[name] = new Date(before + seconds * 1000).toISOString();
  }
  return wanted;
}

/** @param {string | undefined} duration like 90m; 0 where it is none */
function secondsIn(duration) {
  const read = /^(\d+)([smhd])$/.exec(duration ?? "");
  return read ? Number(read[1]) * (UNITS[read[2] ?? ""] ?? 0) : 0;
}

/** In the largest unit that it is a whole number of. @param {number} seconds */
function durationText(seconds) {
  const [unit, length] = Object.entries(UNITS).find((each) => seconds % each[1] === 0) ?? ["s", 1];
  return `${seconds / length}${unit}`;
}

/** Why more hours would not help against what ends it first. @type {Record<string, string>} */
const NOT_BY_HOURS = {
  idle: "That is because it is not used: a use moves it, or a longer time below.",
  budget: "That is because a budget is spent: raise it under Costs to let it run longer.",
  stopped_too_long: "That is because it is off: start it, or give it a longer time below.",
};

/** @param {Instance} one */
function moreTime(one) {
  const end = firstEnd(one);
  if (!end) return null;
  const when = `It ${end.what} at ${clock(end.at)}.`;
  if (end.reason && NOT_BY_HOURS[end.reason]) return h("p", {}, `${when} ${NOT_BY_HOURS[end.reason]}`);
  if (!Object.keys(moved(one.limits ?? {}, 1)).length) return h("p", {}, `${when} That is this deployment's own limit.`);
  return [
    h("p", {}, when),
    h("fieldset", { class: "choices inline" }, h("legend", {}, "Let it run longer"), HOURS.map((hours) => h("label", {}, h("input", { type: "radio", name: "longer", value: hours }), ` ${plural(hours, "hour")} more`))),
  ];
}

/** @param {Instance} one @param {() => void} onChange */
export function openLimits(one, onChange) {
  openDialog({
    title: `When ${one.name} ends`,
    body: [
      moreTime(one),
      h("p", { class: "soft small" }, "The earlier of two limits wins; empty means no limit of its own."),
      h("div", { class: "pair" }, limitFields(one.limits), timeFields(one.limits ?? {})),
      h("label", { class: "check" }, h("input", { type: "checkbox", name: "protected", checked: one.protected }), " Protected: nobody and no limit deletes it"),
    ],
    confirm: "Save",
    work: async (form) => {
      const longer = Number(form.get("longer") ?? 0) * 3600;
      // What somebody has typed counts for itself.
      const limits = { ...(longer ? moved(one.limits ?? {}, longer) : {}), ...limitsFrom(form, one.limits) };
      /** @type {Record<string, unknown>} */
      const patch = {};
      if (Object.keys(limits).length) patch.limits = limits;
      if ((form.get("protected") === "on") !== Boolean(one.protected)) patch.protected = form.get("protected") === "on";
      if (!Object.keys(patch).length) return;
      keep(await change("PATCH", `/api/instances/${encodeURIComponent(one.instanceId)}`, patch));
      onChange();
      say(`${one.name}: limits saved`);
      pollNow();
    },
  });
}
