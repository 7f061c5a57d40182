// A new machine: what it would be, where and for how much is shown while it is being described.

import { change, get, may, newKey, Refused } from "./api.js";
import { fieldErrors, say } from "./dialogs.js";
import { h } from "./dom.js";
import { money, until } from "./format.js";
import { limitFields, limitsFrom } from "./limits.js";
import { stopPolling } from "./polling.js";
import { present, redraw } from "./screen.js";
import { BILLING, errorNote, regionReason, regionsIn } from "./words.js";

const QUOTE_AFTER_MS = 350;
const CAP = "maxPricePerGpuHour";
/** What changes no price. */
const UNPRICED = ["name", "tags", "envs", "webhookUrl", "protected", "healthCheck", "onReclaim"];

/** @type {{ products: Product[] | null, quote: Quote | null, quoteFor: string, refused: Refused | null, template: Template | null, templateError: string, trouble: Refused | null, unanswered: string, busy: boolean, quoting: boolean, key: string, keyFor: string, asked: number, lookedUp: string }} */
const draft = { products: null, quote: null, quoteFor: "", refused: null, template: null, templateError: "", trouble: null, unanswered: "", busy: false, quoting: false, key: "", keyFor: "", asked: 0, lookedUp: "" };
let timer = 0;

export function openCreate() {
  stopPolling();
  if (!may("write")) {
    present(() => [back(), h("h1", { tabindex: -1 }, "New machine"), h("p", { class: "card soft" }, "Your key may look and not buy: somebody with the scope write can.")], "New machine", 60_000);
    return;
  }
  Object.assign(draft, { quote: null, quoteFor: "", refused: null, template: null, templateError: "", trouble: null, unanswered: "", busy: false, lookedUp: "" });
  present(build, "New machine", 60_000);
  void readProducts();
}

async function readProducts() {
  try {
    draft.products = /** @type {{ products: Product[] }} */ (await get("/api/products")).products;
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    draft.products = [];
    draft.refused = error;
  }
  redraw();
}

function back() {
  return h("p", { class: "crumb" }, h("a", { href: "#/" }, "← Fleet"));
}

function build() {
  return [
    back(),
    h("h1", { tabindex: -1 }, "New machine"),
    h("form", { class: "create", id: "create", novalidate: true, on: { input: described, submit: (/** @type {SubmitEvent} */ event) => void submit(event) } }, h("div", {}, what(), when(), more()), aside()),
  ];
}

function what() {
  const names = [...new Map((draft.products ?? []).filter((one) => one.available).map((one) => [one.name, one])).keys()];
  return h(
    "fieldset", { class: "card" },
    h("legend", {}, "What"),
    field("Name", h("input", { name: "name", required: true, maxlength: 100, autocomplete: "off", placeholder: "comfy-eu-2" })),
    field(
      "GPU",
      h("input", { name: "productName", list: "products", required: true, maxlength: 200, autocomplete: "off", placeholder: draft.products === null ? "reading what Novita sells…" : "RTX 4090 24GB" }),
      h("datalist", { id: "products" }, names.map((name) => h("option", { value: name }, cheapest(name)))),
    ),
    field("Template", h("input", { name: "templateId", required: true, maxlength: 255, autocomplete: "off", placeholder: "107672", inputmode: "numeric", "aria-describedby": "template-line" }), h("small", { role: "status", class: "hint", id: "template-line" }, templateLine())),
    h(
      "div", { class: "pair" },
      field("GPUs", h("input", { name: "gpuNum", type: "number", min: 1, max: 8, value: 1 })),
      field("Disk, GB", h("input", { name: "rootfsSize", type: "number", min: 10, max: 1000, value: 60 })),
    ),
    h("fieldset", { class: "choices" }, h("legend", {}, "Billing"), choice("billingMode", "spot", "Spot: cheaper; Novita may take it away", true), choice("billingMode", "onDemand", "On demand")),
  );
}

/** @param {string} name */
function cheapest(name) {
  const prices = (draft.products ?? []).filter((one) => one.name === name && one.available).map((one) => Number(one.spotPricePerGpuHour ?? one.pricePerGpuHour ?? NaN)).filter((price) => price > 0);
  return prices.length ? `from ${money(Math.min(...prices))} per hour` : "";
}

function templateLine() {
  if (draft.templateError) return draft.templateError;
  if (!draft.template) return "The number of a template at Novita: image, ports and variables";
  const ports = draft.template.ports.map((one) => `${one.type} ${one.port}`).join(", ");
  return `${draft.template.name}: ${draft.template.image}${ports ? `; ${ports}` : "; no ports"}`;
}

function when() {
  return h(
    "fieldset", { class: "card", "data-key": "limits" },
    h("legend", {}, "When it ends"),
    h("p", { class: "soft small" }, "A machine that nobody stops costs money for ever. Durations like 90m, 8h, 3d; empty means never."),
    h("div", { class: "pair" }, limitFields()),
    h("label", { class: "check" }, h("input", { type: "checkbox", name: "protected" }), " Protected: nobody and no limit deletes it"),
  );
}

function more() {
  return h(
    "details", { class: "card", "data-key": "more" },
    h("summary", {}, "More"),
    field(
      "Region first",
      h("input", { name: "region", list: "regions", autocomplete: "off", placeholder: "the deployment's own order", maxlength: 64 }),
      h("datalist", { id: "regions" }, [...new Set((draft.products ?? []).flatMap((one) => one.regions))].toSorted().map((region) => h("option", { value: region }))),
    ),
    h("fieldset", { class: "choices" }, h("legend", {}, "Placement"), choice("placement", "priority", "By region order", true), choice("placement", "cheapest", "The cheapest region")),
    field("At most, USD per GPU and hour", h("input", { name: CAP, inputmode: "decimal", autocomplete: "off", placeholder: "no cap" })),
    field("If Novita takes a spot machine away", h("select", { name: "onReclaim" }, h("option", { value: "" }, "leave it off"), h("option", { value: "restart" }, "start it again"), h("option", { value: "replace" }, "start it again, else buy another (its disk is lost)"))),
    h("label", { class: "check" }, h("input", { type: "checkbox", name: "healthCheck" }), " Ready only when the application inside answers"),
    field("Webhook", h("input", { name: "webhookUrl", type: "url", autocomplete: "off", placeholder: "https://example.com/hook", maxlength: 2048 })),
    field("Tags", h("input", { name: "tags", autocomplete: "off", placeholder: "team=art, project=x" })),
    field("Variables, one on each line; nobody is shown their values again", h("textarea", { name: "envs", rows: 3, autocomplete: "off", spellcheck: "false", placeholder: "MODEL=llama" })),
    field("Network volumes", h("input", { name: "networkVolumes", autocomplete: "off", placeholder: "volume-id=/data" })),
  );
}

/** With what was wrong about it, if the service said so. @param {string} label @param {HTMLElement} input @param {...import("./dom.js").Child} more */
function field(label, input, ...more) {
  const name = input.getAttribute("name") ?? "";
  const fault = draft.trouble?.fields.find((one) => one.field.split(".")[0] === name);
  if (fault) {
    input.setAttribute("aria-invalid", "true");
    input.setAttribute("aria-describedby", `${name}-fault`);
  }
  return h("div", {}, h("label", { class: "field" }, h("span", {}, label), input), fault && h("small", { class: "hint bad", id: `${name}-fault` }, fault.message), more);
}

/** @param {string} name @param {string} value @param {string} label @param {boolean} [first] */
function choice(name, value, label, first = false) {
  return h("label", {}, h("input", { type: "radio", name, value, checked: first }), ` ${label}`);
}

function aside() {
  const quote = isForThis() ? draft.quote : null;
  return h(
    "aside", { class: "card quote", "aria-label": "Quote" },
    h("h2", {}, "What it would be"),
    draft.quote && !quote && h("p", { class: "note busy", role: "status" }, "This is the price of what you described before; the new one is being asked for."),
    h("div", { class: draft.quote && !quote ? "old" : "", "aria-live": "polite", "aria-busy": String(draft.quoting) }, quoted()),
    draft.unanswered && h("div", { class: "note bad", role: "alert", "data-key": "unanswered" }, h("p", {}, `No answer came, and ${draft.unanswered} may have been bought all the same. The same once more buys nothing twice; before you change anything and buy again, look for it in the `, h("a", { href: "#/" }, "fleet"), ".")),
    draft.trouble && [errorNote(draft.trouble), fieldErrors(draft.trouble.fields.filter((one) => !isShownAtField(one.field)))],
    h("button", { type: "submit", class: "go wide", disabled: draft.busy }, draft.busy ? "Buying…" : quote ? `Buy it for ${money(hourly(quote))} per hour` : "Buy it"),
    h("p", { class: "soft small" }, "It is bought within seconds if there is room, and else as soon as there is; its page shows which."),
  );
}

function quoted() {
  if (draft.quote) return offer(draft.quote);
  if (draft.refused) {
    const regions = Object.entries(regionsIn(draft.refused.details));
    return [errorNote(draft.refused), regions.length > 0 && regionList(Object.fromEntries(regions))];
  }
  return h("p", { class: "soft" }, "Choose a GPU to see its price and every region's answer.");
}

/** @param {Quote} quote */
function hourly(quote) {
  return quote.perHourUsd ?? quote.pricePerHour;
}

/** @param {Quote} quote */
function offer(quote) {
  const hour = hourly(quote);
  const day = quote.perDayUsd ?? String(Number(hour) * 24);
  const stop = quote.expiry?.stopAt;
  return [
    h("p", { class: "price" }, h("b", {}, money(hour)), " per hour", h("small", {}, `${money(day)} a day${quote.gpuNum > 1 ? `; ${money(quote.pricePerGpuHour)} for each of ${quote.gpuNum} GPUs` : ""}`)),
    h("p", {}, `${quote.productName} in ${quote.region}, ${BILLING[quote.billingMode] ?? quote.billingMode}`),
    stop && h("p", { class: "soft small" }, `Stops ${until(stop)} if it runs at once: ${money((Number(hour) * Math.max(0, Date.parse(stop) - Date.now())) / 3_600_000)} until then`),
    regionList(quote.regions, pricesIn(quote)),
  ];
}

/** What the cheapest machine of each region costs for a GPU and hour. @param {Quote} quote */
function pricesIn(quote) {
  /** @type {Record<string, number>} */
  const prices = { [quote.region]: Number(quote.pricePerGpuHour) };
  for (const one of quote.alternatives) prices[one.region] = Math.min(prices[one.region] ?? Infinity, Number(one.pricePerGpuHour));
  return prices;
}

/** @param {Record<string, string>} regions @param {Record<string, number>} [prices] */
function regionList(regions, prices = {}) {
  return h(
    "ul", { class: "regions" },
    Object.entries(regions).map(([region, reason]) => {
      const price = prices[region];
      return h("li", { "data-key": region }, h("span", {}, region), h("span", { class: `pill ${reason === "OFFERED" ? "ok" : "off"}` }, price === undefined ? regionReason(reason) : `from ${money(price)}`));
    }),
  );
}

/** What is wrong with the limits stands beside the button, all else at its field. @param {string} name */
function isShownAtField(name) {
  return Boolean(formElement()?.querySelector(`[name="${CSS.escape(name.split(".")[0] ?? "")}"]`));
}

function formElement() {
  return /** @type {HTMLFormElement | null} */ (document.getElementById("create"));
}

/** The form as the API takes it; null where it cannot be read, which is then said at the field. @param {HTMLFormElement} element */
function readForm(element) {
  const fields = unreadable(element);
  if (!fields.length) return bodyOf(element);
  draft.asked += 1; // no answer that is still to come is for this
  Object.assign(draft, { quote: null, refused: null, quoting: false, trouble: new Refused(400, "", "Nothing is asked or bought with what cannot be read.", { fields }) });
  redraw();
  return null;
}

/** What would count as left out, and is not: no cap, one GPU. @param {HTMLFormElement} element */
function unreadable(element) {
  return [...element.querySelectorAll("input")].filter((one) => one.validity.badInput || (one.name === CAP && one.value.trim() && numberIn(one.value) === null)).map((one) => ({ field: one.name, message: `Must be a number, like ${one.name === CAP ? "0.35" : "2"}` }));
}

/** With a point or a comma before the decimals, and nothing beside it. @param {string} text */
function numberIn(text) {
  const plain = text.trim().replace(",", ".");
  return /^(\d+\.?\d*|\.\d+)$/.test(plain) ? Number(plain) : null;
}

/** What was left empty is left out. @param {HTMLFormElement} element */
function bodyOf(element) {
  const form = new FormData(element);
  const text = (/** @type {string} */ name) => String(form.get(name) ?? "").trim();
  /** @type {Record<string, unknown>} */
  const body = { gpuNum: Number(text("gpuNum") || 1), rootfsSize: Number(text("rootfsSize") || 60), billingMode: text("billingMode") || "spot" };
  for (const name of ["name", "productName", "templateId", "region", "webhookUrl", "onReclaim"]) if (text(name)) body[name] = text(name);
  if (text("placement") === "cheapest") body.placement = "cheapest";
  if (text(CAP)) body[CAP] = numberIn(text(CAP));
  if (form.get("healthCheck")) body.healthCheck = {};
  if (form.get("protected")) body.protected = true;
  const limits = limitsFrom(form);
  if (Object.keys(limits).length) body.limits = limits;
  const tags = pairs(text("tags"), ",");
  if (tags.length) body.tags = Object.fromEntries(tags);
  const envs = pairs(text("envs"), "\n");
  if (envs.length) body.envs = envs.map(([key, value]) => ({ key, value }));
  const volumes = pairs(text("networkVolumes"), ",");
  if (volumes.length) body.networkVolumes = volumes.map(([id, mountPath]) => ({ id, mountPath }));
  return body;
}

/** What is written as name=value. @param {string} text @param {string} between @returns {[string, string][]} */
function pairs(text, between) {
  const lines = text.split(between).map((line) => line.trim()).filter(Boolean);
  return lines.map((line) => {
    const [name, ...value] = line.split("=");
    return [(name ?? "").trim(), value.join("=").trim()];
  });
}

/** What a quote is for: two bodies with the same have the same price. @param {Record<string, unknown>} body */
function pricedBy(body) {
  return JSON.stringify(Object.entries(body).filter(([name]) => !UNPRICED.includes(name)));
}

/** Whether the quote is for what the form says now. */
function isForThis() {
  const element = formElement();
  return Boolean(draft.quote && element && !unreadable(element).length && draft.quoteFor === pricedBy(bodyOf(element)));
}

function described() {
  clearTimeout(timer);
  draft.trouble = null;
  redraw();
  timer = window.setTimeout(() => void askQuote(), QUOTE_AFTER_MS);
}

async function askQuote() {
  const element = formElement();
  const body = element && readForm(element);
  if (!body) return;
  void lookUpTemplate(String(body.templateId ?? ""));
  if (!body.productName || isForThis()) return;
  const number = ++draft.asked;
  draft.quoting = true;
  redraw();
  try {
    /** @type {Quote} */
    const quote = await change("POST", "/api/quotes", body);
    if (number === draft.asked) Object.assign(draft, { quote, quoteFor: pricedBy(body), refused: null });
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    if (number === draft.asked) Object.assign(draft, { quote: null, refused: error });
  } finally {
    if (number === draft.asked) draft.quoting = false;
  }
  redraw();
}

/** @param {string} id */
async function lookUpTemplate(id) {
  if (id === draft.lookedUp) return;
  Object.assign(draft, { lookedUp: id, template: null, templateError: "" });
  if (!id) return;
  try {
    /** @type {Template} */
    const template = await get(`/api/templates/${encodeURIComponent(id)}`);
    if (draft.lookedUp === id) draft.template = template;
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    if (draft.lookedUp === id) draft.templateError = error.message;
  }
  redraw();
}

/** @param {SubmitEvent} event */
async function submit(event) {
  event.preventDefault();
  const element = formElement();
  if (!element || draft.busy) return;
  const body = readForm(element);
  if (!body) return focusFault(element);
  // One key for one description: asking again after a lost answer buys nothing twice.
  const described = JSON.stringify(body);
  if (draft.keyFor !== described) Object.assign(draft, { key: newKey(), keyFor: described });
  Object.assign(draft, { busy: true, trouble: null });
  redraw();
  try {
    /** @type {{ instanceId: string, message: string }} */
    const created = await change("POST", "/api/instances", body, draft.key);
    Object.assign(draft, { keyFor: "", quote: null, unanswered: "" });
    say(`${String(body.name)}: ${created.message}`);
    location.hash = `#/instances/${created.instanceId}`;
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    draft.trouble = error;
    if (isUnknown(error)) draft.unanswered = String(body.name ?? "it");
  } finally {
    draft.busy = false;
  }
  redraw();
  focusFault(element);
}

/** Whether it may have been done all the same: nothing came back, or nothing of the service's own. @param {Refused} error */
function isUnknown(error) {
  return error.status === 0 || (error.status >= 500 && ["", "INTERNAL_ERROR"].includes(error.code));
}

/** @param {HTMLFormElement} element */
function focusFault(element) {
  /** @type {HTMLElement | null} */ (element.querySelector("[aria-invalid]"))?.focus();
}
