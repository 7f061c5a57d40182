// The fleet at a glance: what runs, what it costs, what went wrong, what ends when.

import { get, may, Refused } from "./api.js";
import { h } from "./dom.js";
import { money, plural, since } from "./format.js";
import { fleet, readFleet } from "./instances.js";
import { askDelete, askStop } from "./operations.js";
import { poll } from "./polling.js";
import { present, redraw, skeleton } from "./screen.js";
import { actionsFor, BILLING, concerns, ends, isComingBack, ON_THE_WAY, perHour, soFar, STATUSES, statusPill, statusWord, timeElement, unseenSince, UP, why } from "./words.js";

const EVERY_MS = 4000;
const ROWS_AT_ONCE = 100;

const view = { search: "", status: "live", sort: "createdAt", down: true, rows: ROWS_AT_ONCE, error: /** @type {Refused | null} */ (null) };
/** @type {Set<string>} */
const selected = new Set();
/** @type {{ today: string | null, budgets: Budget[], status: ServiceStatus | null, readAt: number }} */
const beside = { today: null, budgets: [], status: null, readAt: 0 };

/** @type {Record<string, (one: Instance) => string | number>} */
const ORDER = {
  name: (one) => one.name.toLowerCase(),
  status: (one) => STATUSES.indexOf(one.status),
  machine: (one) => `${one.productName ?? ""} ${one.region ?? ""}`,
  createdAt: (one) => one.createdAt,
  perHour: (one) => perHour(one) ?? -1,
  soFar: (one) => Number(one.cost?.soFarUsd ?? -1),
  ends: (one) => one.expiry?.stopAt ?? one.expiry?.deleteAt ?? "9",
};

/** @type {[string, string, string][]} */
const COLUMNS = [["name", "Name", ""], ["status", "Status", ""], ["machine", "Machine", ""], ["createdAt", "Age", "n"], ["perHour", "Per hour", "n"], ["soFar", "So far", "n"], ["ends", "Ends", ""]];

export function openFleet() {
  present(build, "Fleet");
  poll(async () => {
    try {
      await readFleet(redraw);
      view.error = null;
    } catch (error) {
      if (error instanceof Refused) view.error = error;
      throw error;
    } finally {
      redraw();
    }
    await readBeside();
  }, EVERY_MS);
}

/** What it costs and how the service is. Once a minute: sums are up to five minutes old anyway. */
async function readBeside() {
  if (Date.now() - beside.readAt < 60_000) return;
  beside.readAt = Date.now();
  const today = new Date().toISOString().slice(0, 10);
  try {
    beside.status = await get("/api/status");
    redraw();
    beside.today = /** @type {Costs} */ (await get(`/api/costs?from=${today}&to=${today}&groupBy=day`)).totalUsd;
    beside.budgets = /** @type {{ budgets: Budget[] }} */ (await get("/api/budgets")).budgets;
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
  }
  redraw();
}

function build() {
  const all = [...fleet.all.values()];
  const loaded = fleet.loadedAt > 0;
  if (!loaded && view.error) return [heading(), trouble(view.error)];
  if (!loaded) return [heading(), h("p", { class: "soft", role: "status" }, "Reading the fleet…"), skeleton()];
  if (!all.length) return [heading(), ofTheService(), firstVisit()];
  const shown = sorted(all.filter(matches));
  for (const id of selected) if (!fleet.all.has(id)) selected.delete(id);
  return [
    heading(),
    view.error && trouble(view.error),
    ofTheService(),
    unseen(all),
    tiles(all),
    bar(shown.length),
    selected.size ? bulkBar() : null,
    table(shown),
    shown.length > view.rows && more(shown.length),
    !fleet.complete && fleet.total !== null && h("p", { class: "soft small", role: "status" }, `${fleet.all.size.toLocaleString("en-US")} of ${plural(fleet.total, "instance")} read so far`),
  ];
}

/** What somebody who looks at machines alone would miss. */
function ofTheService() {
  const found = beside.status ? concerns(beside.status) : [];
  if (!found.length) return null;
  const kind = found.some((one) => one.kind === "bad") ? "bad" : "busy";
  return h("div", { class: `note ${kind}`, role: "status", "data-key": "service" }, found.map(({ text }) => h("p", {}, text)), h("p", { class: "small" }, h("a", { href: "#/service" }, "How the service is")));
}

/** Machines that Novita has not shown for long: what is shown of them may be old. @param {Instance[]} all */
function unseen(all) {
  const times = all.flatMap((one) => (one.missingSince ? [] : unseenSince(one) ?? []));
  const [oldest] = times.toSorted();
  if (!oldest) return null;
  const whose = times.length === 1 ? "one machine is" : `${times.length.toLocaleString("en-US")} machines are`;
  return h("p", { class: "note busy", role: "status", "data-key": "unseen" }, `Novita has not answered for a while: ${whose} shown as last seen, up to ${since(oldest)} ago.`);
}

function heading() {
  return h(
    "div", { class: "head" },
    h("h1", { tabindex: -1 }, "Fleet"),
    may("write") && h("a", { class: "button go", href: "#/new" }, "New machine"),
  );
}

/** @param {Refused} error */
function trouble(error) {
  return h("div", { class: "note bad", role: "alert" }, error.message, fleet.loadedAt ? ` What you see is ${since(new Date(fleet.loadedAt).toISOString())} old.` : "", error.requestId && h("span", { class: "soft small" }, " request ", h("code", {}, error.requestId)));
}

function firstVisit() {
  return h(
    "section", { class: "card welcome" },
    h("h2", {}, "No machine yet"),
    h("p", {}, "Ostler buys the cheapest GPU machine that can be had, watches it until the application inside answers, and gives it back when its time is over."),
    may("write")
      ? [
          h("ol", {}, h("li", {}, "Choose a GPU and a template: you see the price and every region's answer before anything is bought."), h("li", {}, "Say when it should stop by itself, so that it never costs more than you meant."), h("li", {}, "Watch it come up; its addresses and its costs appear on its page.")),
          h("p", {}, h("a", { class: "button go", href: "#/new" }, "Create the first machine")),
        ]
      : h("p", { class: "soft" }, "Your key may look and not buy: somebody with the scope write creates the first one."),
    h("p", { class: "soft small" }, "By command: ", h("code", {}, "ostler create first --product \"RTX 4090 24GB\" --template 107672"), ". All routes: ", h("a", { href: "/docs" }, "API documentation"), "."),
  );
}

/** @param {Instance[]} all */
function tiles(all) {
  const hourly = all.reduce((sum, one) => sum + (perHour(one) ?? 0), 0);
  const bad = all.filter((one) => one.missingSince || one.status === "failed").length;
  const [budget] = beside.budgets.filter((one) => one.scope === "all");
  return h(
    "dl", { class: "tiles" },
    tile("Running", all.filter((one) => UP.includes(one.status)).length),
    tile("On the way", all.filter((one) => ON_THE_WAY.includes(one.status) || isComingBack(one)).length),
    bad ? tile("Failed or missing", h("button", { type: "button", class: "plain", "aria-label": `${bad} failed or missing: show only these`, on: { click: () => narrow({ search: "", status: "trouble" }) } }, bad), "bad") : null,
    tile("Per hour", money(hourly)),
    beside.today !== null ? tile("Today (UTC)", money(beside.today)) : null,
    budget ? tile(`This ${budget.period}, of ${money(budget.limitUsd)}`, money(budget.spentUsd), Number(budget.spentUsd) >= Number(budget.limitUsd) ? "bad" : "") : null,
  );
}

/** @param {string} label @param {import("./dom.js").Child} value @param {string} [kind] */
function tile(label, value, kind = "") {
  return h("div", { class: kind, "data-key": label }, h("dt", {}, label), h("dd", {}, value));
}

/** @param {number} count */
function bar(count) {
  return h(
    "div", { class: "bar", role: "search", "data-key": "bar" },
    h("input", { type: "search", id: "search", class: "grow", "aria-label": "Search", value: view.search, placeholder: "Search name, tag, product, region, id", on: { input: (/** @type {any} */ event) => narrow({ search: event.target.value }) } }),
    h(
      "select", { id: "status", "aria-label": "Status", on: { change: (/** @type {any} */ event) => narrow({ status: event.target.value }) } },
      [["live", "All that live"], ["trouble", "Failed or missing"], ["all", "All, ended ones too"]].map(([value, text]) => h("option", { value, selected: view.status === value }, text)),
      h("optgroup", { label: "Status" }, STATUSES.map((status) => h("option", { value: status, selected: view.status === status }, statusWord(status)))),
    ),
    h(
      "select", { id: "sort", class: "folded", "aria-label": "Sort", on: { change: (/** @type {any} */ event) => sortBy(event.target.value) } },
      COLUMNS.map(([key, label]) => h("option", { value: key, selected: view.sort === key }, `by ${label.toLowerCase()}`)),
    ),
    h("span", { class: "soft small count", role: "status" }, plural(count, "instance")),
  );
}

/** @param {Partial<typeof view>} wanted */
function narrow(wanted) {
  Object.assign(view, wanted, { rows: ROWS_AT_ONCE });
  redraw();
}

/** @param {Instance} one */
function matches(one) {
  if (view.status === "live" && one.status === "terminated") return false;
  if (view.status === "trouble" && !(one.missingSince || one.status === "failed")) return false;
  if (STATUSES.includes(view.status) && one.status !== view.status) return false;
  if (!view.search) return true;
  const tags = Object.entries(one.tags ?? {}).map(([name, value]) => `${name}:${value}`);
  const text = [one.name, one.instanceId, one.novitaInstanceId, one.productName, one.region, one.status, one.owner, ...tags].join(" ").toLowerCase();
  return view.search.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}

/** @param {Instance[]} some */
function sorted(some) {
  const by = ORDER[view.sort] ?? ORDER.createdAt;
  const sign = view.down ? -1 : 1;
  const keyed = some.map((one) => ({ one, key: by ? by(one) : "" }));
  keyed.sort((a, b) => (a.key < b.key ? -sign : a.key > b.key ? sign : a.one.instanceId < b.one.instanceId ? 1 : -1));
  return keyed.map(({ one }) => one);
}

function bulkBar() {
  const chosen = [...selected].flatMap((id) => fleet.all.get(id) ?? []);
  const clear = () => {
    selected.clear();
    redraw();
  };
  const shown = sorted([...fleet.all.values()].filter(matches)).slice(0, view.rows);
  return h(
    "div", { class: "bulk", role: "region", "aria-label": "Selected", "data-key": "bulk" },
    h("b", { role: "status" }, `${plural(chosen.length, "instance")} selected`),
    h("button", { type: "button", disabled: !chosen.some((one) => actionsFor(one).stop), on: { click: () => askStop(chosen, redraw) } }, "Stop…"),
    h("button", { type: "button", class: "danger-quiet", disabled: !chosen.some((one) => actionsFor(one).remove), on: { click: () => askDelete(chosen, redraw) } }, "Delete…"),
    h("button", { type: "button", class: "plain folded", on: { click: () => select(shown, true) } }, "All that are shown"),
    h("button", { type: "button", class: "plain", on: { click: clear } }, "Clear"),
  );
}

/** @param {Instance[]} shown */
function table(shown) {
  if (!shown.length) return h("p", { class: "card soft empty", "data-key": "none" }, "Nothing here is like that. ", h("button", { type: "button", class: "plain", on: { click: showEverything } }, "Show all"));
  const chooses = may("write");
  const rows = shown.slice(0, view.rows);
  return h(
    "table", { class: "fleet", "data-key": "table" },
    h("caption", { class: "hidden" }, "Instances"),
    h(
      "thead", {},
      h(
        "tr", {},
        chooses && h("th", { class: "tick" }, h("input", { type: "checkbox", "aria-label": "Select all that are shown", checked: rows.length > 0 && rows.every((one) => selected.has(one.instanceId)), on: { change: (/** @type {any} */ event) => select(rows, event.target.checked) } })),
        COLUMNS.map(([key, label, kind]) => column(key, label, kind)),
      ),
    ),
    h("tbody", {}, rows.map((one) => row(one, chooses))),
  );
}

function showEverything() {
  const input = document.getElementById("search");
  if (input instanceof HTMLInputElement) input.value = "";
  narrow({ search: "", status: "all" });
}

/** @param {Instance[]} some @param {boolean} chosen */
function select(some, chosen) {
  for (const one of some) {
    if (chosen) selected.add(one.instanceId);
    else selected.delete(one.instanceId);
  }
  redraw();
}

/** What is chosen anew begins with the most where it is a number. @param {string} key */
function sortBy(key) {
  if (view.sort !== key) Object.assign(view, { sort: key, down: COLUMNS.some(([name, , kind]) => name === key && kind === "n") });
  redraw();
}

/** @param {string} key @param {string} label @param {string} [kind] */
function column(key, label, kind = "") {
  const active = view.sort === key;
  const turn = () => {
    if (active) view.down = !view.down;
    sortBy(key);
  };
  return h("th", { class: kind, scope: "col", "aria-sort": active ? (view.down ? "descending" : "ascending") : null }, h("button", { type: "button", class: "sort", on: { click: turn } }, label, h("span", { "aria-hidden": "true" }, active ? (view.down ? " ↓" : " ↑") : "")));
}

/** @param {Instance} one @param {boolean} chooses */
function row(one, chooses) {
  const [first, ...rest] = ends(one);
  const tags = Object.entries(one.tags ?? {}).map(([name, value]) => `${name}: ${value}`).join(" · ");
  const hourly = perHour(one);
  const seen = one.missingSince ? null : unseenSince(one);
  return h(
    "tr", { "data-key": one.instanceId, class: one.status === "terminated" ? "over" : "" },
    chooses && h("td", { class: "tick" }, h("input", { type: "checkbox", "aria-label": `Select ${one.name}`, checked: selected.has(one.instanceId), on: { change: (/** @type {any} */ event) => select([one], event.target.checked) } })),
    h("td", { class: "name" }, h("a", { href: `#/instances/${encodeURIComponent(one.instanceId)}` }, one.name), tags && h("small", {}, tags)),
    h("td", { class: "status" }, statusPill(one), h("small", {}, [why(one), seen && `as seen ${since(seen)} ago`].filter(Boolean).join("; "))),
    h("td", { class: "machine" }, `${one.productName ?? "unknown"}${one.gpuNum > 1 ? ` × ${one.gpuNum}` : ""}`, h("small", {}, whereabouts(one))),
    h("td", { class: "n age" }, timeElement(one.createdAt, since(one.createdAt))),
    h("td", { class: "n hourly", "data-label": "per hour" }, hourly === null || (!hourly && !one.hasMachine) ? "–" : money(hourly)),
    h("td", { class: "n cost", "data-label": "so far" }, soFar(one.cost)),
    h("td", { class: first ? "ends" : "ends none" }, first ?? "–", rest.map((line) => h("small", {}, line))),
  );
}

/** Where its machine is, or why it has none. @param {Instance} one */
function whereabouts(one) {
  if (one.status === "failed" && !one.hasMachine && !one.cleanup?.length) return one.novitaInstanceId ? "no machine any more" : "no machine";
  return [one.region, BILLING[one.billingMode] ?? one.billingMode].filter(Boolean).join(", ");
}

/** @param {number} count */
function more(count) {
  return h("p", { class: "more", "data-key": "more" }, h("button", { type: "button", on: { click: () => { view.rows += 4 * ROWS_AT_ONCE; redraw(); } } }, `Show ${Math.min(4 * ROWS_AT_ONCE, count - view.rows)} more of ${count - view.rows}`));
}

document.addEventListener("keydown", (event) => {
  const typing = event.target instanceof HTMLElement && event.target.closest("input, textarea, select, dialog");
  if (event.key === "/" && !typing && !event.metaKey && !event.ctrlKey) {
    const input = document.getElementById("search");
    if (input) {
      event.preventDefault();
      input.focus();
    }
  }
});
