// The page: who is looking, which screen they see, and whether what they see is live.

import { auth, forgetKey, get, keepKey, Refused, session, takeKeyFromLink } from "./api.js";
import { openCosts } from "./costs.js";
import { openCreate } from "./create.js";
import { h, show } from "./dom.js";
import { duration } from "./format.js";
import { openFleet } from "./fleet.js";
import { openInstance } from "./instance.js";
import { forgetFleet } from "./instances.js";
import { stopPolling, whenPolled } from "./polling.js";
import { focusScreen, present } from "./screen.js";
import { openService } from "./service.js";
import { errorNote } from "./words.js";

const live = { error: /** @type {Refused | null} */ (null) };

function element(/** @type {string} */ id) {
  return /** @type {HTMLElement} */ (document.getElementById(id));
}

function showHeader() {
  const place = location.hash || "#/";
  const link = (/** @type {string} */ href, /** @type {string} */ text) => h("a", { href, "aria-current": place === href || (href === "#/" && /^#\/(instances|new)/.test(place)) ? "page" : null }, text);
  show(element("nav"), session.me ? [link("#/", "Fleet"), link("#/costs", "Costs"), link("#/service", "Service")] : [], h("a", { href: "/docs" }, "API"));
  show(element("who"), session.me ? [state(), h("span", { class: "soft who", title: session.me.id }, session.me.scopes.at(-1) ?? "no scope"), h("button", { type: "button", class: "plain", on: { click: leave } }, "Forget key")] : []);
}

function state() {
  const age = session.seenAt ? Date.now() - session.seenAt : 0;
  if (live.error) return h("span", { class: "live bad" }, h("i"), `not live, seen ${duration(age)} ago`);
  return h("span", { class: "live" }, h("i"), age < 15_000 ? "live" : `seen ${duration(age)} ago`);
}

function leave() {
  forgetKey();
  forgetFleet();
  stopPolling();
  askKey(null);
}

/** @param {Refused | null} error */
function askKey(error) {
  stopPolling();
  showHeader();
  const submit = async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    const key = String(new FormData(/** @type {HTMLFormElement} */ (event.target)).get("key") ?? "").trim();
    if (!key) return;
    keepKey(key);
    await enter();
  };
  const word = auth === "jwt" ? "token" : "key";
  present(
    () => [
      h(
        "section", { class: "card gate" },
        h("h1", { tabindex: -1 }, auth === "iam" ? "This deployment wants signed requests" : `Your ${word}`),
        auth === "iam"
          ? h("p", {}, "It was deployed with auth=iam: every call is signed with AWS credentials, which a page in a browser neither has nor should have. Use the client, a program of yours, or ", h("code", {}, "awscurl"), "; all routes are in the ", h("a", { href: "/docs" }, "API documentation"), ".")
          : [
              h("p", { class: "soft" }, auth === "jwt" ? "Paste a token of your issuer. " : "Paste an API key (ost_…). ", "It is kept until you close this tab, and sent to this address only."),
              error && errorNote(error),
              h("form", { on: { submit: (/** @type {SubmitEvent} */ event) => void submit(event) } }, h("label", { class: "field" }, h("span", {}, auth === "jwt" ? "Token" : "API key"), h("input", { name: "key", type: "password", autocomplete: "off", spellcheck: "false", required: true, "aria-invalid": error ? "true" : null })), h("button", { type: "submit", class: "go wide" }, "Open")),
              auth === "keys" && h("p", { class: "soft small" }, "Somebody who deploys makes one: ", h("code", {}, 'make keys ARGS="create --name me --scopes read,write"')),
            ],
      ),
    ],
    "Key", 3_600_000,
  );
  const input = /** @type {HTMLElement | null} */ (document.querySelector(".gate input"));
  if (input) input.focus();
  else focusScreen();
}

/** Finds out who is looking; everything else comes after. */
async function enter() {
  try {
    session.me = await get("/api/me");
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    if (error.status !== 401) present(() => [h("h1", { tabindex: -1 }, "Ostler"), errorNote(error), h("button", { type: "button", on: { click: () => void enter() } }, "Try again")], "", 3_600_000);
    return;
  }
  route();
}

session.onRefusedKey = (error) => {
  forgetKey();
  forgetFleet();
  askKey(new Refused(error.status, error.code, "The service does not take this key: it is wrong, or it was revoked.", error));
};

whenPolled((error) => {
  live.error = error;
  showHeader();
});

function route() {
  if (!session.me) return;
  const [, screen, id] = location.hash.split("/");
  if (screen === "instances" && id) openInstance(decodeURIComponent(id));
  else if (screen === "new") openCreate();
  else if (screen === "costs") openCosts();
  else if (screen === "service") openService();
  else openFleet();
  showHeader();
  focusScreen();
}

window.addEventListener("hashchange", () => {
  if (takeKeyFromLink()) begin();
  else route();
});
document.querySelector(".skip")?.addEventListener("click", (event) => {
  event.preventDefault();
  focusScreen();
});
window.setInterval(() => {
  if (session.me && !document.hidden) showHeader();
}, 1000);

function begin() {
  forgetFleet();
  session.me = null;
  if (session.key && auth !== "iam") void enter();
  else askKey(null);
}

takeKeyFromLink();
begin();
