// The service itself: whether Novita answers, what waits, what failed for good, what is cached.

import { change, get, may, Refused } from "./api.js";
import { openDialog, say } from "./dialogs.js";
import { h } from "./dom.js";
import { clock, duration, money, plural, since, until } from "./format.js";
import { poll, pollNow } from "./polling.js";
import { present, redraw, skeleton } from "./screen.js";
import { concerns, errorNote, timeElement } from "./words.js";

const EVERY_MS = 10_000;

/** @type {{ status: ServiceStatus | null, circuits: Circuit[], jobs: JobStats | null, letters: DeadLetter[], more: boolean, caches: CacheStats | null, error: Refused | null }} */
const state = { status: null, circuits: [], jobs: null, letters: [], more: false, caches: null, error: null };

export function openService() {
  present(build, "Service");
  poll(read, EVERY_MS);
}

async function read() {
  try {
    const [status, circuits, jobs, letters, caches] = await Promise.all([get("/api/status"), get("/api/circuits"), get("/api/jobs/stats"), get("/api/jobs/dead?limit=50"), get("/api/cache/stats")]);
    const told = /** @type {any} */ ({ status, jobs, caches });
    Object.assign(state, told, { circuits: /** @type {any} */ (circuits).circuits, letters: /** @type {any} */ (letters).deadLetters, more: Boolean(/** @type {any} */ (letters).nextCursor), error: null });
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    state.error = error;
    throw error;
  } finally {
    redraw();
  }
}

function build() {
  const head = h("h1", { tabindex: -1 }, "Service");
  if (!state.status || !state.jobs || !state.caches) return [head, state.error ? errorNote(state.error) : [h("p", { class: "soft", role: "status" }, "Reading…"), skeleton()]];
  return [
    h("div", { class: "head" }, head, may("admin") && h("div", { class: "buttons" }, pauseButton(state.status))),
    state.error && errorNote(state.error),
    concerns(state.status).map(({ kind, text }) => h("p", { class: `note ${kind}` }, text)),
    statusTiles(state.status),
    h("div", { class: "columns" }, h("div", {}, circuitCard(), rateCard(state.status)), h("div", {}, queueCard(state.jobs))),
    deadCard(),
    cacheCard(state.caches),
  ];
}

/** @param {ServiceStatus} status */
function statusTiles(status) {
  /** @param {string} label @param {import("./dom.js").Child} value @param {boolean} [bad] */
  const tile = (label, value, bad = false) => h("div", { class: bad ? "bad" : "", "data-key": label }, h("dt", {}, label), h("dd", {}, value));
  return h(
    "dl", { class: "tiles" },
    tile("Last sweep", status.lastSweepAt ? timeElement(status.lastSweepAt, `${since(status.lastSweepAt)} ago`) : "–"),
    tile("Compared with Novita", status.lastComparedAt ? timeElement(status.lastComparedAt, `${since(status.lastComparedAt)} ago`) : "–", status.comparisonComplete === false),
    tile("Machines", status.machines ?? "–"),
    tile("Missing", status.missing ?? "–", Boolean(status.missing)),
    tile("Orphans", status.orphans ?? "–", Boolean(status.orphans)),
    tile("Stuck clean-ups", status.stuckCleanups ?? "–", Boolean(status.stuckCleanups)),
    status.balance?.availableUsd !== undefined ? tile("Balance at Novita", money(status.balance.availableUsd)) : null,
  );
}

/** @param {ServiceStatus} status */
function pauseButton(status) {
  const paused = status.purchasesPaused;
  const ask = () =>
    openDialog({
      title: paused ? "Buy and start again?" : "Pause purchases?",
      body: [h("p", {}, paused ? "What waited goes on at once." : "No purchase, start or recovery begins until somebody resumes. What runs goes on and costs on; stops and deletes work.")],
      confirm: paused ? "Resume" : "Pause",
      danger: !paused,
      work: async () => {
        await change("POST", paused ? "/api/resume" : "/api/pause");
        pollNow();
      },
    });
  return h("button", { type: "button", class: paused ? "go" : "danger-quiet", on: { click: ask } }, paused ? "Resume…" : "Pause purchases…");
}

/** @param {string} title @param {string} key @param {...import("./dom.js").Child} content */
function part(title, key, ...content) {
  return h("section", { class: "card", "data-key": key, "aria-label": title }, h("h2", {}, title), content);
}

/** @param {string} caption @param {string[]} columns @param {import("./dom.js").Child[][]} rows */
function grid(caption, columns, rows) {
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption }, h("table", { class: "small-table" }, h("caption", { class: "hidden" }, caption), h("thead", {}, h("tr", {}, columns.map((name, place) => h("th", { scope: "col", class: place ? "n" : "" }, name)))), h("tbody", {}, rows.map((cells) => h("tr", {}, cells.map((cell, place) => h("td", { class: place ? "n" : "" }, cell)))))));
}

function circuitCard() {
  const CALM = "CLOSED";
  return part(
    "Circuits to Novita", "circuits",
    h("ul", { class: "lines" }, state.circuits.map((one) => h("li", { class: "row between", "data-key": one.name }, h("span", {}, one.name, one.failures > 0 && h("span", { class: "soft small" }, `, ${plural(one.failures, "failure")} of late`), one.openUntil && h("span", { class: "soft small" }, `, tries again ${until(one.openUntil)}`)), h("span", { class: `pill ${one.state === CALM ? "ok" : one.state === "OPEN" ? "bad" : "busy"}` }, one.state === CALM ? "closed: calls go out" : one.state === "OPEN" ? "open: fails fast" : "half open: trying")))),
  );
}

/** @param {ServiceStatus} status */
function rateCard(status) {
  const { used, limit, usedBy, pausedUntil, windowSeconds } = status.rateLimit;
  return part(
    "Rate limit", "rate",
    h("p", {}, h("b", {}, `${used} of ${limit}`), ` calls in the last ${windowSeconds} s`, pausedUntil ? `; Novita asked for a pause, ${until(pausedUntil)}` : ""),
    h("meter", { min: 0, max: limit, value: used, low: limit * 0.8, high: limit * 0.95, optimum: 0, "aria-label": `${used} of ${limit} calls used` }),
    h("p", { class: "soft small" }, Object.entries(usedBy).map(([name, count]) => `${name.replaceAll("_", " ")} ${count}`).join(", ") || "none of late"),
  );
}

/** @param {JobStats} jobs */
function queueCard(jobs) {
  return part(
    "Queues", "queues",
    grid("Queues", ["Queue", "Waiting", "Overdue", "Dead", "Failed", "Done", "In flight", "Delayed"], Object.entries(jobs.queues).map(([name, queue]) => {
      const counted = jobs.jobs[name];
      return [name, queue.depth, queue.oldestAgeSeconds ? duration(queue.oldestAgeSeconds * 1000) : "–", queue.dead ? h("b", { class: "bad" }, queue.dead) : 0, counted ? counted.refused + counted.gaveUp : "–", counted?.done ?? "–", queue.inFlight, queue.delayed];
    })),
    h("p", { class: "soft small" }, `Done and failed since ${clock(jobs.since)}.`, jobs.deadLettersNotStored ? ` ${plural(jobs.deadLettersNotStored, "dead letter")} not stored yet.` : ""),
  );
}

/** @param {CacheStats} caches */
function cacheCard(caches) {
  const act = (/** @type {string} */ path, /** @type {string} */ text) => async () => {
    try {
      await change("POST", path);
      say(text);
      pollNow();
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      say(error.message, "bad");
    }
  };
  return part(
    "Caches", "caches",
    grid("Caches", ["Cache", "Entries", "Hits", "Misses", "Hit ratio"], Object.entries(caches.shared.caches).map(([name, one]) => [name, one.size, one.hits, one.misses, one.hits + one.misses ? `${Math.round(one.hitRatio * 100)} %` : "–"])),
    may("admin") && h("div", { class: "buttons" }, h("button", { type: "button", on: { click: act("/api/cache/clear", "Nothing cached before is used any more") } }, "Clear"), h("button", { type: "button", on: { click: act("/api/cache/cleanup", "What had expired is removed") } }, "Remove expired")),
  );
}

function deadCard() {
  return part(
    "Dead letters", "dead",
    state.letters.length ? h("ul", { class: "lines" }, state.letters.map(letter)) : h("p", { class: "soft" }, "None: no message has failed for good in the last 14 days."),
    state.more && h("p", { class: "soft small" }, "The newest 50 are shown; ", h("code", {}, "GET /api/jobs/dead"), " has all."),
  );
}

/** @param {DeadLetter} one */
function letter(one) {
  const redrive = () =>
    openDialog({
      title: "Let it go on?",
      body: [h("p", {}, one.deliveryId ? "The webhook is sent now." : "A new message is made. An instance that failed and has no machine is bought again, and costs again.")],
      confirm: "Redrive",
      work: async () => {
        /** @type {{ message: string }} */
        const told = await change("POST", `/api/jobs/dead/${encodeURIComponent(one.id)}/redrive`);
        say(told.message);
        pollNow();
      },
    });
  return h(
    "li", { "data-key": one.id },
    h("div", { class: "row between" }, h("span", {}, h("span", { class: `pill ${one.redrivenAt ? "off" : "bad"}` }, one.redrivenAt ? "redriven" : "dead"), ` ${one.queue}, `, timeElement(one.diedAt, clock(one.diedAt)), `, after ${plural(one.attempts, "attempt")}`, one.instanceId && [", ", h("a", { href: `#/instances/${encodeURIComponent(one.instanceId)}` }, one.instanceId)]), may("admin") && !one.redrivenAt && h("button", { type: "button", class: "slim", on: { click: redrive } }, "Redrive…", h("span", { class: "hidden" }, ` ${one.id}`))),
    h("small", {}, `${one.reason.code}: ${one.reason.message}`),
    (one.error || one.body) && h("details", {}, h("summary", { class: "small" }, "More"), one.error && h("code", { class: "block" }, one.error), one.body && h("code", { class: "block" }, one.body)),
  );
}
