// One instance: what it is doing, how it got there, how to reach it, what it costs and when it ends.

import { change, get, may, Refused } from "./api.js";
import { say, sayRefused } from "./dialogs.js";
import { h, isSafeAddress } from "./dom.js";
import { clock, duration, money, plural, since, until } from "./format.js";
import { fleet, keep } from "./instances.js";
import { actionButtons } from "./operations.js";
import { poll, pollNow } from "./polling.js";
import { present, redraw, screenWidth, skeleton } from "./screen.js";
import { forgetChosen, timeline } from "./timeline.js";
import { actorInWords, afterFailure, BILLING, endpoints, ends, errorNote, eventInWords, faultInWords, ON_THE_WAY, perHour, regionReason, soFar, statusPill, statusWord, timeElement, why } from "./words.js";

const BUSY_MS = 2000;
const CALM_MS = 5000;
const WHOLE_MS = 30_000;
const AGAIN_MS = 3900; // between two readings of all of it, however fast it changes
const ENDED = ["deleting", "terminated"];

/** @type {{ id: string, events: InstanceEvent[], operations: Operation[], deliveries: Delivery[], moreDeliveries: boolean, cost: InstanceCost | null, connection: Connection | null, error: Refused | null, seen: string, wholeAt: number, rounds: Map<string, HealthResult> }} */
const state = { id: "", events: [], operations: [], deliveries: [], moreDeliveries: false, cost: null, connection: null, error: null, seen: "", wholeAt: 0, rounds: new Map() };

/** @param {string} id */
export function openInstance(id) {
  Object.assign(state, { id, events: [], operations: [], deliveries: [], moreDeliveries: false, cost: null, connection: null, error: null, seen: "", wholeAt: 0, rounds: new Map() });
  forgetChosen();
  present(build, fleet.all.get(id)?.name ?? "Instance", 1000);
  poll(async () => {
    try {
      return await read(id);
    } catch (error) {
      if (error instanceof Refused && state.id === id) state.error = error;
      throw error;
    } finally {
      redraw();
    }
  }, CALM_MS);
}

/** The instance each time; the rest soon after it has changed, and now and then. @param {string} id */
async function read(id) {
  const path = `/api/instances/${encodeURIComponent(id)}`;
  /** @type {Instance} */
  const one = await get(path);
  keep(one);
  state.error = null;
  noteRound(one.healthCheck);
  document.title = `${one.name} · Ostler`;
  redraw();
  if (Date.now() - state.wholeAt > (!state.seen ? 0 : one.updatedAt !== state.seen ? AGAIN_MS : WHOLE_MS)) {
    const [events, operations, cost, deliveries] = await Promise.all([
      readEvents(path),
      get(`${path}/operations`),
      get(`${path}/cost`),
      one.webhookUrl ? get(`/api/webhooks/deliveries?instanceId=${encodeURIComponent(id)}&limit=100`) : { deliveries: [] },
    ]);
    if (state.id !== id) return CALM_MS;
    for (const event of events) noteRound(event.healthCheck);
    Object.assign(state, { events, operations: /** @type {any} */ (operations).operations, cost, deliveries: /** @type {any} */ (deliveries).deliveries, moreDeliveries: Boolean(/** @type {any} */ (deliveries).nextCursor), seen: one.updatedAt, wholeAt: Date.now() });
  }
  return [...ON_THE_WAY, "health_checking", "stopping", "deleting"].includes(one.status) ? BUSY_MS : CALM_MS;
}

/** The service keeps the last round, and those that an event came of; others are known as long as this page has seen them. @param {HealthResult | undefined} health */
function noteRound(health) {
  const at = health?.endpoints?.map((each) => each.lastChecked ?? "").toSorted().at(-1);
  if (health && at) state.rounds.set(at, health);
}

/** All that are kept, oldest first. @param {string} path */
async function readEvents(path) {
  /** @type {InstanceEvent[]} */
  const events = [];
  for (let cursor = ""; ; ) {
    /** @type {{ events: InstanceEvent[], nextCursor?: string }} */
    const page = await get(`${path}/events${cursor && `?cursor=${encodeURIComponent(cursor)}`}`);
    events.push(...page.events);
    if (!page.nextCursor) return events;
    cursor = page.nextCursor;
  }
}

function build() {
  const one = fleet.all.get(state.id);
  const back = h("p", { class: "crumb" }, h("a", { href: "#/" }, "← Fleet"));
  if (!one) return [back, h("h1", { tabindex: -1 }, "Instance"), state.error ? errorNote(state.error) : [h("p", { class: "soft", role: "status" }, "Reading…"), skeleton()]];
  return [
    back,
    h("div", { class: "head" }, h("div", {}, h("h1", { tabindex: -1 }, one.name, " ", statusPill(one)), h("p", { class: "soft why", role: "status", "data-key": "why" }, one.status === "failed" && one.error ? "" : why(one))), h("div", { class: "buttons" }, actionButtons(one, redraw))),
    state.error && errorNote(state.error),
    one.stale && h("p", { class: "note busy", role: "status" }, `Novita cannot be asked: this is how it was ${one.lastSyncedAt ? `${since(one.lastSyncedAt)} ago` : "when it was last seen"}.`),
    one.error && one.status === "failed" && failure(one),
    card("Timeline", "timeline", state.wholeAt ? timeline(one, { events: state.events, intervals: state.cost?.intervals ?? [], rounds: state.rounds }, screenWidth() - 38, redraw) : h("p", { class: "soft", role: "status" }, "Reading what happened…")),
    h("div", { class: "columns" }, h("div", {}, card("Now", "now", now(one)), waitingCard(one), connectionCard(one), healthCard(one), !one.hasMachine && costCard(one)), h("div", {}, card("Machine", "machine", facts(one)), one.hasMachine && costCard(one))),
    state.wholeAt > 0 && card("Events", "events", eventTable()),
    state.operations.length > 0 && card("Operations", "operations", operationTable()),
    state.wholeAt > 0 && one.webhookUrl && card("Webhook deliveries", "deliveries", deliveryList()),
  ];
}

/** @param {string} title @param {string} key @param {...import("./dom.js").Child} content */
function card(title, key, ...content) {
  return h("section", { class: "card", "data-key": key, "aria-label": title }, h("h2", {}, title), content);
}

/** @param {Instance} one */
function failure(one) {
  if (!one.error) return null;
  return h("div", { class: "note bad", "data-key": "failure" }, h("p", {}, h("b", {}, faultInWords(one.error))), h("p", { class: "soft small" }, `${one.error.code}; ${afterFailure(one)}`));
}

/** @param {(import("./dom.js").Child)[][]} rows */
function list(rows) {
  return h("dl", { class: "facts" }, rows.map(([name, ...value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

/** @param {Instance} one */
function now(one) {
  const endsAt = ends(one);
  const hourly = perHour(one);
  return list([
    ...endpoints(one).map((port) => [`${port.type} ${port.port}`, isSafeAddress(port.endpoint) ? h("a", { href: port.endpoint, target: "_blank", rel: "noopener noreferrer" }, port.endpoint) : h("code", {}, port.endpoint)]),
    ["Cost so far", one.cost ? `${soFar(one.cost)}${hourly ? `, ${money(hourly)} per hour` : ""}` : hourly ? `${money(hourly)} per hour` : "–"],
    ...(ENDED.includes(one.status) ? [] : [["Ends", endsAt.length ? endsAt.map((line) => h("span", { class: "line" }, line)) : "nothing ends it by itself"]]),
    ...(one.recoveries ? [["Recovered", plural(one.recoveries, "time")]] : []),
    ...(one.lastUsedAt ? [["Last used", timeElement(one.lastUsedAt, `${since(one.lastUsedAt)} ago`)]] : []),
    ["Seen at Novita", one.lastSyncedAt ? timeElement(one.lastSyncedAt, `${since(one.lastSyncedAt)} ago`) : "not yet"],
    ...(one.webhookUrl && state.wholeAt ? [["Webhook", `${state.deliveries.filter((each) => each.state === "delivered").length} of ${state.moreDeliveries ? "the newest " : ""}${state.deliveries.length} delivered`]] : []),
  ]);
}

/** @param {Instance} one */
function facts(one) {
  return list([
    ["Product", `${one.productName ?? "unknown"}${one.gpuNum > 1 ? ` × ${one.gpuNum}` : ""}`],
    ["Where", [one.region ?? "not bought yet", BILLING[one.billingMode] ?? one.billingMode].join(", ")],
    ["Price", one.pricePerGpuHour ? `${money(one.pricePerGpuHour)} per GPU and hour` : "–"],
    ["Disk", one.rootfsSize ? `${one.rootfsSize} GB` : "–"],
    ["Template", one.templateId ?? "–"],
    ["Created", timeElement(one.createdAt, `${clock(one.createdAt)}, ${since(one.createdAt)} ago`)],
    ...(one.readyAt ? [["First ready", timeElement(one.readyAt, `after ${duration(Date.parse(one.readyAt) - Date.parse(one.createdAt))}`)]] : []),
    ...(one.onReclaim ? [["If Novita takes it", one.onReclaim.action]] : []),
    ...Object.entries(one.tags ?? {}).map(([name, value]) => [`Tag ${name}`, value]),
    ...(one.envNames ? [["Variables", one.envNames.join(", ")]] : []),
    ...(one.networkVolumes ?? []).map((volume) => [`Volume ${volume.id}`, h("code", {}, volume.mountPath)]),
    ["Instance", h("code", {}, one.instanceId)],
    ...(one.novitaInstanceId ? [["At Novita", h("code", {}, one.novitaInstanceId)]] : []),
    ...(one.owner ? [["Made by", h("code", {}, one.owner)]] : []),
  ]);
}

/** @param {Instance} one */
function waitingCard(one) {
  const regions = Object.entries(one.regionReasons ?? {});
  if (!regions.length || one.status !== "creating") return null;
  return card("Why not yet", "regions", list(regions.map(([region, reason]) => [region, regionReason(reason)])));
}

/** @param {Instance} one */
function connectionCard(one) {
  if (!may("write") || !one.hasMachine || one.missingSince || ["creating", "terminated", "deleting"].includes(one.status)) return null;
  const places = state.connection;
  const ask = async () => {
    try {
      state.connection = await get(`/api/instances/${encodeURIComponent(one.instanceId)}/connection`);
    } catch (error) {
      sayRefused(error);
    }
    redraw();
  };
  const hide = () => {
    state.connection = null;
    redraw();
  };
  return card(
    "Get in", "connection",
    places
      ? [
          list(/** @type {[string, Place | undefined][]} */ ([["ssh", places.ssh], ["Jupyter", places.jupyter], ["Web terminal", places.webTerminal], ["Log of the system", { address: places.logs?.system }], ["Log of the application", { address: places.logs?.instance }]]).flatMap(([name, place]) => (place && Object.values(place).some(Boolean) ? [[name, placeLines(place)]] : []))),
          h("div", { class: "buttons below" }, h("button", { type: "button", on: { click: hide } }, "Hide")),
        ]
      : h("div", { class: "row between" }, h("p", { class: "soft" }, "Commands and passwords are fetched from Novita when you ask, and kept nowhere."), h("button", { type: "button", on: { click: () => void ask() } }, "Show connection")),
  );
}

/** @param {Place} place */
function placeLines(place) {
  return [
    place.command && copyable(place.command),
    place.address && (isSafeAddress(place.address) ? h("a", { href: place.address, target: "_blank", rel: "noopener noreferrer" }, place.address) : copyable(place.address)),
    place.username && h("span", { class: "line" }, `user ${place.username}`),
    place.password && copyable(place.password, "password"),
  ];
}

/** @param {string} text @param {string} [what] */
function copyable(text, what = "") {
  const copy = () => void navigator.clipboard.writeText(text).then(() => say(`${what || "Command"} copied`), () => say("The browser does not allow copying here", "bad"));
  return h("span", { class: "line" }, h("code", {}, what ? `${what} ••••••` : text), " ", h("button", { type: "button", class: "plain", "aria-label": `Copy ${what || text}`, on: { click: copy } }, "copy"));
}

/** @param {Instance} one */
function healthCard(one) {
  const health = one.healthCheck;
  if (!health?.endpoints?.length) return null;
  return card(
    `Health: ${health.overall ?? health.status ?? ""}`, "health",
    h("ul", { class: "lines" }, health.endpoints.map((each) => h("li", {}, h("span", { class: `pill ${each.status === "healthy" ? "ok" : "bad"}` }, each.status), ` ${each.type} ${each.port}`, each.responseTime !== undefined ? `, ${each.responseTime} ms` : "", each.lastChecked ? `, ${since(each.lastChecked)} ago` : "", each.error && h("small", {}, `${each.error.category.replaceAll("_", " ")}: ${each.error.message}`)))),
  );
}

/** @param {Instance} one */
function costCard(one) {
  if (!state.cost?.intervals.length) return null;
  return card(
    `Cost: ${state.cost.estimated ? "≈ " : ""}${money(state.cost.totalUsd)}`, "cost",
    h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "What it has cost" }, h(
      "table", { class: "small-table" },
      h("caption", { class: "hidden" }, `What ${one.name} has cost`),
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "For"), h("th", { scope: "col" }, "From"), h("th", { class: "n", scope: "col" }, "Long"), h("th", { class: "n", scope: "col" }, "Per hour"), h("th", { class: "n", scope: "col" }, "Amount"))),
      h("tbody", {}, state.cost.intervals.map((each) => h("tr", {}, h("td", {}, each.kind === "storage" ? "disk" : each.kind), h("td", {}, timeElement(each.from, clock(each.from))), h("td", { class: "n" }, duration((each.to ? Date.parse(each.to) : Date.now()) - Date.parse(each.from))), h("td", { class: "n" }, money(each.usdPerHour)), h("td", { class: "n" }, `${each.estimated ? "≈ " : ""}${money(each.amountUsd)}`)))),
    )),
    state.cost.billed && billedLine(state.cost.billed),
  );
}

/** Novita's own bill beside ours. @param {Billed} billed */
function billedLine(billed) {
  const days = billed.from === billed.through ? billed.from : `${billed.from} to ${billed.through}`;
  return h("p", { class: billed.differs ? "small bad" : "soft small" }, `Novita's bill for ${days}: ${money(billed.totalUsd)}; counted here: ${money(billed.oursUsd)}`, billed.differs && ", which differs by more than 10 %");
}

function eventTable() {
  const newest = state.events.toReversed();
  return h(
    "details", { open: newest.length < 30 }, h("summary", {}, plural(newest.length, "event"), ", newest first"),
    h(
      "div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Events, newest first" },
      h("table", { class: "small-table" }, h("caption", { class: "hidden" }, "Events"), h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "When"), h("th", { scope: "col" }, "What"), h("th", { scope: "col", class: "wide-only" }, "Status"), h("th", { scope: "col" }, "By"))), h("tbody", {}, newest.map((event) => h("tr", { "data-key": event.id }, h("td", { class: "when" }, timeElement(event.timestamp, clock(event.timestamp))), h("td", {}, eventInWords(event), h("small", {}, event.type)), h("td", { class: "wide-only" }, statusWord(event.status)), h("td", {}, actorInWords(event.actor)))))),
    ),
  );
}

function operationTable() {
  return h(
    "ul", { class: "lines" },
    state.operations.map((each) => {
      const began = each.phases[0];
      return h("li", { "data-key": each.operationId }, h("span", { class: `pill ${each.status === "completed" ? "ok" : each.status === "failed" ? "bad" : "busy"}` }, statusWord(each.status)), " ", h("b", {}, each.kind), began ? [", ", timeElement(began.at, clock(began.at))] : "", `, by ${actorInWords(each.actor)}`, each.attempts > 1 ? `, ${plural(each.attempts, "attempt")}` : "", h("small", {}, each.phases.map((phase) => `${statusWord(phase.status)} ${clock(phase.at)}`).join(" → ")), each.error && h("small", { class: "bad" }, each.error.message));
    }),
  );
}

function deliveryList() {
  if (!state.deliveries.length) return h("p", { class: "soft" }, "Nothing was sent yet.");
  return [h("ul", { class: "lines" }, state.deliveries.map(delivery)), state.moreDeliveries && h("p", { class: "soft small" }, "The newest 100 are shown; ", h("code", {}, "ostler webhooks list"), " has all.")];
}

/** @param {Delivery} each */
function delivery(each) {
  const kind = each.state === "delivered" ? "ok" : each.state === "pending" ? "busy" : "bad";
  const replay = async () => {
    try {
      /** @type {{ message: string }} */
      const told = await change("POST", `/api/webhooks/deliveries/${encodeURIComponent(each.id)}/replay`);
      say(told.message);
      state.seen = "";
      pollNow();
    } catch (error) {
      sayRefused(error);
    }
  };
  return h(
    "li", { "data-key": each.id },
    h("div", { class: "row between" }, h("span", {}, h("span", { class: `pill ${kind}` }, each.state), ` ${each.eventType}, `, timeElement(each.createdAt, clock(each.createdAt)), each.nextAttemptAt ? `, next try ${until(each.nextAttemptAt)}` : ""), may("write") && h("button", { type: "button", class: "slim", on: { click: () => void replay() } }, "Send again", h("span", { class: "hidden" }, ` ${each.eventType}`))),
    h("details", {}, h("summary", { class: "small" }, `${plural(each.attempts.length, "attempt")} to `, h("code", {}, each.url)), h("ol", { class: "small" }, each.attempts.map((one) => h("li", {}, timeElement(one.at, clock(one.at)), one.status ? `, answered ${one.status}` : "", one.tookMs !== undefined ? ` after ${one.tookMs} ms` : "", one.error ? `, ${one.error}` : "", one.answer && h("code", { class: "block" }, one.answer))))),
  );
}
