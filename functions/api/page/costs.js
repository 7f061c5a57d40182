// What was spent: a chart by day, stacked by what one asks for, with the budgets beside it.

import { change, get, may, Refused } from "./api.js";
import { openDialog, say } from "./dialogs.js";
import { draw, h } from "./dom.js";
import { money, plural } from "./format.js";
import { fleet } from "./instances.js";
import { poll, pollNow } from "./polling.js";
import { present, redraw, screenWidth, skeleton } from "./screen.js";
import { errorNote } from "./words.js";

const EVERY_MS = 60_000;
const MOST_GROUPS = 6;
const HEIGHT = 240;
const DAY_MS = 86_400_000;

/** @type {{ costs: Costs | null, budgets: Budget[] | null, error: Refused | null, groupBy: string, days: string, number: number }} */
const state = { costs: null, budgets: null, error: null, groupBy: "product", days: "month", number: 0 };

export function openCosts() {
  present(build, "Costs", 60_000);
  poll(read, EVERY_MS);
}

async function read() {
  const number = ++state.number;
  const { from, to } = range();
  try {
    /** @type {Costs} */
    const costs = await get(`/api/costs?from=${from}&to=${to}&groupBy=${encodeURIComponent(state.groupBy)}`);
    for (let page = costs; page.nextCursor; ) {
      page = await get(`/api/costs?from=${from}&to=${to}&groupBy=${encodeURIComponent(state.groupBy)}&cursor=${encodeURIComponent(page.nextCursor)}`);
      costs.groups = joined(costs.groups, page.groups);
    }
    const { budgets } = /** @type {{ budgets: Budget[] }} */ (await get("/api/budgets"));
    if (number === state.number) Object.assign(state, { costs, budgets, error: null });
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    state.error = error;
    throw error;
  } finally {
    redraw();
  }
}

/** A group may go on in the next page. @param {CostGroup[]} known @param {CostGroup[]} more */
function joined(known, more) {
  const groups = new Map(known.map((one) => [one.key, one]));
  for (const one of more) {
    const before = groups.get(one.key);
    groups.set(one.key, before ? { key: one.key, amountUsd: String(Number(before.amountUsd) + Number(one.amountUsd)), days: [...before.days, ...one.days] } : one);
  }
  return [...groups.values()];
}

function range() {
  const now = new Date();
  const day = (/** @type {Date} */ date) => date.toISOString().slice(0, 10);
  if (state.days === "month") return { from: day(new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth(), 1))), to: day(now) };
  if (state.days === "before") return { from: day(new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - 1, 1))), to: day(new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth(), 0))) };
  return { from: day(new Date(now.getTime() - (Number(state.days) - 1) * DAY_MS)), to: day(now) };
}

function build() {
  const head = h("h1", { tabindex: -1 }, "Costs");
  return [
    h("div", { class: "head" }, head, controls()),
    state.error && errorNote(state.error),
    state.costs ? chartCard(state.costs) : !state.error && [h("p", { class: "soft", role: "status" }, "Adding up…"), skeleton()],
    state.budgets && budgetsCard(state.budgets),
  ];
}

function controls() {
  const pick = (/** @type {Partial<typeof state>} */ wanted) => {
    Object.assign(state, wanted);
    pollNow();
  };
  const tag = () => openDialog({
    title: "By which tag?",
    body: [h("label", { class: "field" }, h("span", {}, "Tag"), h("input", { name: "tag", list: "tags", required: true, autocomplete: "off", placeholder: "team" }), h("datalist", { id: "tags" }, tagNames().map((name) => h("option", { value: name }))))],
    confirm: "Show",
    work: async (form) => pick({ groupBy: `tag:${String(form.get("tag")).trim()}` }),
  });
  const groups = [["product", "by product"], ["region", "by region"], ["instance", "by instance"], ["key", "by key"], ["day", "in all"], ...(state.groupBy.startsWith("tag:") ? [[state.groupBy, `by tag ${state.groupBy.slice(4)}`]] : []), ["tag", "by tag…"]];
  return h(
    "div", { class: "buttons" },
    h("select", { id: "days", "aria-label": "Days", on: { change: (/** @type {any} */ event) => pick({ days: event.target.value }) } }, [["month", "This month"], ["7", "7 days"], ["30", "30 days"], ["90", "90 days"], ["before", "Last month"]].map(([value, text]) => h("option", { value, selected: state.days === value }, text))),
    h("select", { id: "group", "aria-label": "Stacked", on: { change: (/** @type {any} */ event) => (event.target.value === "tag" ? tag() : pick({ groupBy: event.target.value })) } }, groups.map(([value, text]) => h("option", { value, selected: state.groupBy === value }, text))),
  );
}

/** Those of the instances that have been read. */
function tagNames() {
  return [...new Set([...fleet.all.values()].flatMap((one) => Object.keys(one.tags ?? {})))].toSorted();
}

/** @param {Costs} costs */
function chartCard(costs) {
  const groups = largest(costs);
  const days = daysBetween(costs.from, costs.to);
  const budgets = lines(days.length);
  const totals = totalsOf(groups, days);
  const top = topOf(totals, budgets);
  return h(
    "section", { class: "card", "data-key": "chart", "aria-label": "Costs by day" },
    h("p", { class: "price" }, h("b", {}, `${costs.estimated ? "≈ " : ""}${money(costs.totalUsd)}`), h("small", {}, `${costs.from} to ${costs.to}, days in UTC${costs.estimated ? "; partly estimated" : ""}`)),
    Number(costs.totalUsd) > 0 ? [chart(groups, days, totals, budgets, top), legend(groups, budgets, top)] : h("p", { class: "soft empty" }, "Nothing was spent in these days."),
    Number(costs.totalUsd) > 0 && h("details", {}, h("summary", { class: "small" }, "As a table"), table(groups, days)),
  );
}

/** The largest groups, and all others as one. @param {Costs} costs @returns {CostGroup[]} */
function largest(costs) {
  if (costs.groupBy === "day" && costs.groups.every((one) => /^\d{4}-\d\d-\d\d$/.test(one.key))) {
    return [{ key: "all", amountUsd: costs.totalUsd, days: costs.groups.map((one) => ({ date: one.key, amountUsd: one.amountUsd })) }];
  }
  const ordered = costs.groups.toSorted((a, b) => Number(b.amountUsd) - Number(a.amountUsd));
  const rest = ordered.slice(MOST_GROUPS);
  if (rest.length < 2) return ordered;
  /** @type {Map<string, number>} */
  const sums = new Map();
  for (const one of rest) for (const day of one.days) sums.set(day.date, (sums.get(day.date) ?? 0) + Number(day.amountUsd));
  const amountUsd = String(rest.reduce((sum, one) => sum + Number(one.amountUsd), 0));
  return [...ordered.slice(0, MOST_GROUPS), { key: `${rest.length} others`, amountUsd, days: [...sums].map(([date, amount]) => ({ date, amountUsd: String(amount) })) }];
}

/** @param {string} from @param {string} to */
function daysBetween(from, to) {
  const days = [];
  for (let time = Date.parse(from); time <= Date.parse(to); time += DAY_MS) days.push(new Date(time).toISOString().slice(0, 10));
  return days;
}

/** What each budget for everything allows in a day. @param {number} count */
function lines(count) {
  if (!count) return [];
  const now = new Date();
  const month = new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1, 0)).getUTCDate();
  return (state.budgets ?? []).filter((one) => one.scope === "all").map((one) => (one.period === "day" ? { at: Number(one.limitUsd), text: `budget ${one.name}: ${money(one.limitUsd)} a day` } : { at: Number(one.limitUsd) / month, text: `budget ${one.name}: ${money(one.limitUsd)} a month, evenly spent` }));
}

/** @param {CostGroup[]} groups @param {string[]} days */
function totalsOf(groups, days) {
  const sums = new Map(days.map((day) => [day, 0]));
  for (const one of groups) for (const day of one.days) sums.set(day.date, (sums.get(day.date) ?? 0) + Number(day.amountUsd));
  return days.map((day) => sums.get(day) ?? 0);
}

/** The scale's end: budgets that are far above what is spent would make everything else flat. @param {number[]} totals @param {{ at: number }[]} budgets */
function topOf(totals, budgets) {
  const highest = Math.max(...totals, 0.0001);
  return niceAbove(Math.max(highest, ...budgets.filter((one) => one.at < highest * 3).map((one) => one.at)));
}

/** @param {CostGroup[]} groups @param {string[]} days @param {number[]} totals @param {{ at: number, text: string }[]} budgets @param {number} top */
function chart(groups, days, totals, budgets, top) {
  const width = Math.max(300, screenWidth() - 38);
  const amounts = new Map(groups.map((one) => [one.key, new Map(one.days.map((day) => [day.date, Number(day.amountUsd)]))]));
  const left = 56;
  const bottom = HEIGHT - 24;
  const y = (/** @type {number} */ usd) => bottom - (usd / top) * (bottom - 12);
  const step = (width - left - 8) / days.length;
  const every = Math.ceil(days.length / Math.max(2, Math.floor(width / 80)));
  return draw(
    "svg", { class: "picture chart", viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, role: "img", "aria-label": `Costs of ${plural(days.length, "day")}, at most ${money(Math.max(...totals))} in one; the table below has the numbers` },
    [0, 0.5, 1].map((part) => [draw("line", { class: "grid", x1: left, x2: width, y1: y(top * part), y2: y(top * part) }), draw("text", { x: left - 8, y: y(top * part) + 4, "text-anchor": "end" }, axisText(top * part, top))]),
    days.map((day, place) => {
      let base = 0;
      return draw(
        "g", {},
        draw("title", {}, `${day}: ${money(totals[place])}`),
        groups.map((one, number) => {
          const amount = amounts.get(one.key)?.get(day) ?? 0;
          if (!amount) return null;
          base += amount;
          return draw("rect", { class: `series s${number}`, x: left + place * step + step * 0.12, y: y(base), width: Math.max(1, step * 0.76), height: Math.max(0.5, y(base - amount) - y(base)) }, draw("title", {}, `${day}, ${one.key}: ${money(amount)}`));
        }),
        place % every === 0 && draw("text", { x: left + (place + 0.5) * step, y: HEIGHT - 6, "text-anchor": "middle" }, shortDay(day)),
      );
    }),
    budgets.filter((one) => one.at <= top).map((one) => draw("line", { class: "budget", x1: left, x2: width, y1: y(one.at), y2: y(one.at) }, draw("title", {}, one.text))),
  );
}

/** @param {string} day */
function shortDay(day) {
  return new Date(`${day}T00:00:00Z`).toLocaleString("en-GB", { month: "short", day: "numeric", timeZone: "UTC" });
}

/** As many decimals as it has: the middle of a small scale is no whole cent. @param {number} value @param {number} top */
function axisText(value, top) {
  return value.toLocaleString("en-US", { style: "currency", currency: "USD", minimumFractionDigits: top >= 10 ? 0 : 2, maximumFractionDigits: 5 });
}

/** @param {number} value */
function niceAbove(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 3, 4, 6, 8, 10].map((factor) => factor * power).find((nice) => nice >= value) ?? value;
}

/** @param {CostGroup[]} groups @param {{ at: number, text: string }[]} budgets @param {number} top */
function legend(groups, budgets, top) {
  const line = () => draw("svg", { width: 22, height: 12, "aria-hidden": "true" }, draw("line", { class: "budget", x1: 0, x2: 22, y1: 6, y2: 6 }));
  return h("ul", { class: "legend" }, budgets.map((one) => h("li", {}, one.at <= top && line(), ` ${one.text}${one.at > top ? `: ${money(one.at)} a day, above this chart` : ""}`)), groups.map((one, number) => h("li", {}, draw("svg", { width: 12, height: 12, "aria-hidden": "true" }, draw("rect", { class: `series s${number}`, width: 12, height: 12, rx: 3 })), ` ${one.key || "(none)"} `, h("b", {}, money(one.amountUsd)))));
}

/** @param {CostGroup[]} groups @param {string[]} days */
function table(groups, days) {
  // A column has the same decimals in every row.
  const amounts = groups.map((one) => ({ byDay: new Map(one.days.map((day) => [day.date, day.amountUsd])), digits: one.days.some((day) => Number(day.amountUsd) >= 0.995) ? 2 : 3 }));
  return h(
    "div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Costs as a table" },
    h("table", { class: "small-table" }, h("caption", { class: "hidden" }, "Costs by day"), h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Day (UTC)"), groups.map((one) => h("th", { class: "n", scope: "col" }, one.key || "(none)")))), h("tbody", {}, days.toReversed().map((day) => h("tr", {}, h("td", { class: "when" }, day), amounts.map(({ byDay, digits }) => h("td", { class: "n" }, byDay.has(day) ? money(byDay.get(day), digits) : "–")))))),
  );
}

/** @param {Budget[]} budgets */
function budgetsCard(budgets) {
  const changes = may("admin");
  return h(
    "section", { class: "card", "data-key": "budgets", "aria-label": "Budgets" },
    h("div", { class: "row between" }, h("h2", {}, "Budgets"), changes && h("button", { type: "button", on: { click: () => editBudget(null) } }, "New budget")),
    budgets.length ? h("ul", { class: "lines" }, budgets.map((one) => budgetLine(one, changes))) : h("p", { class: "soft" }, "None. A budget tells you, refuses new machines, or stops what runs, before too much is spent."),
  );
}

/** @param {Budget} one @param {boolean} changes */
function budgetLine(one, changes) {
  const part = Math.round((Number(one.spentUsd) / Number(one.limitUsd)) * 100);
  const kind = part >= 100 ? "bad" : part >= 80 ? "busy" : "ok";
  return h(
    "li", { "data-key": one.name },
    h("div", { class: "row between" }, h("span", {}, h("b", {}, one.name), ` ${money(one.spentUsd)} of ${money(one.limitUsd)} this ${one.period}`, " ", h("span", { class: `pill ${kind}` }, `${part} %`)), changes && h("span", { class: "buttons" }, h("button", { type: "button", class: "slim", on: { click: () => editBudget(one) } }, "Change…", h("span", { class: "hidden" }, ` budget ${one.name}`)), h("button", { type: "button", class: "slim danger-quiet", on: { click: () => removeBudget(one) } }, "Delete…", h("span", { class: "hidden" }, ` budget ${one.name}`)))),
    h("meter", { min: 0, max: 100, value: Math.min(100, part), low: 80, high: 99, optimum: 0, "aria-label": `${one.name}: ${part} percent spent` }),
    h("small", {}, `${scopeInWords(one.scope)}; tells at ${one.thresholds.join(", ")} %; then ${ACTIONS[one.action] ?? one.action}`),
  );
}

/** @type {Record<string, string>} */
const ACTIONS = { notify: "only tells", refuse: "refuses new machines and starts", stop: "stops what runs" };

/** @param {Budget["scope"]} scope */
function scopeInWords(scope) {
  if (scope === "all") return "everything";
  return scope.key ? `key ${scope.key}` : `tag ${scope.tag?.name}: ${scope.tag?.value}`;
}

/** @param {Budget | null} one */
function editBudget(one) {
  const input = (/** @type {string} */ label, /** @type {string} */ name, /** @type {string} */ value, /** @type {Record<string, any>} */ more = {}) => h("label", { class: "field" }, h("span", {}, label), h("input", { name, value, autocomplete: "off", ...more }));
  const scope = one && one.scope !== "all" ? one.scope : {};
  openDialog({
    title: one ? `Budget ${one.name}` : "New budget",
    body: [
      !one && input("Name", "name", "", { required: true }),
      input("Limit, USD", "limitUsd", one?.limitUsd ?? "", { required: true, inputmode: "decimal" }),
      h("label", { class: "field" }, h("span", {}, "For each"), h("select", { name: "period" }, ["month", "day"].map((each) => h("option", { value: each, selected: one?.period === each }, each)))),
      h("label", { class: "field" }, h("span", {}, "When it is spent"), h("select", { name: "action" }, Object.entries(ACTIONS).map(([value, text]) => h("option", { value, selected: one?.action === value }, text)))),
      input("Only what has this tag (name=value; empty: everything)", "tag", scope.tag ? `${scope.tag.name}=${scope.tag.value}` : ""),
    ],
    confirm: "Save",
    work: async (form) => {
      const [tag, ...value] = String(form.get("tag") ?? "").split("=");
      const wanted = tag?.trim() ? { tag: { name: tag.trim(), value: value.join("=").trim() } } : scope.key ? { key: scope.key } : "all";
      const name = one?.name ?? String(form.get("name")).trim();
      const body = { limitUsd: String(form.get("limitUsd")).trim(), period: form.get("period"), action: form.get("action"), scope: wanted, thresholds: one?.thresholds ?? [50, 80, 100] };
      await change("PUT", `/api/budgets/${encodeURIComponent(name)}`, body);
      say(`Budget ${name} saved`);
      pollNow();
    },
  });
}

/** @param {Budget} one */
function removeBudget(one) {
  openDialog({
    title: `Delete the budget ${one.name}?`,
    body: [h("p", {}, "Nothing is told, refused or stopped for it any more. What was spent stays in the costs.")],
    confirm: "Delete",
    danger: true,
    work: async () => {
      await change("DELETE", `/api/budgets/${encodeURIComponent(one.name)}`);
      pollNow();
    },
  });
}
