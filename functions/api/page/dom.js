// Makes and updates elements. Only text and attributes are ever set, so nothing that the API answers can become markup.

/** @typedef {Node | string | number | false | null | undefined} Leaf */
/** @typedef {Leaf | Child[]} Child */
/** @typedef {Record<string, (event: any) => void>} Listeners */
/** @typedef {Record<string, string | number | boolean | null | undefined | Listeners>} Attributes */

const SVG = "http://www.w3.org/2000/svg";
const NEVER = /^(on|style$|srcdoc$|src$|action$|formaction$)/i;

/** @type {WeakMap<Element, Listeners>} */
const listeners = new WeakMap();

/**
 * An element. `on` holds listeners by event; false, null and undefined leave an attribute out.
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {Attributes} [attributes]
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[T]}
 */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  fill(element, attributes, children);
  return element;
}

/**
 * The same for drawings.
 * @template {keyof SVGElementTagNameMap} T
 * @param {T} tag
 * @param {Attributes} [attributes]
 * @param {...Child} children
 * @returns {SVGElementTagNameMap[T]}
 */
export function draw(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  fill(element, attributes, children);
  return element;
}

/** @param {Element} element @param {Attributes} attributes @param {Child[]} children */
function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "on") listen(element, /** @type {Listeners} */ (value));
    else if (value !== false && value !== null && value !== undefined) set(element, name, value === true ? "" : String(value));
  }
  append(element, children);
}

/** @param {Element} element @param {string} name @param {string} value */
function set(element, name, value) {
  if (NEVER.test(name)) throw new Error(`the attribute ${name} is never set`);
  if (name === "href" && !isSafeAddress(value)) return;
  element.setAttribute(name, value);
}

/** Whether following it can do no more than open a page. @param {string} value */
export function isSafeAddress(value) {
  return /^(https?:\/\/|#|\/(?!\/))/i.test(value);
}

/** @param {Element} parent @param {Child[]} children */
function append(parent, children) {
  for (const child of children) {
    if (Array.isArray(child)) append(parent, child);
    else if (child instanceof Node) parent.append(child);
    else if (child !== false && child !== null && child !== undefined) parent.append(String(child));
  }
}

/** @param {Element} element @param {Listeners} wanted */
function listen(element, wanted) {
  for (const type of Object.keys(wanted)) element.addEventListener(type, dispatch);
  listeners.set(element, wanted);
}

/** Looks the listener up when something happens, so that an update can replace it. @param {globalThis.Event} event */
function dispatch(event) {
  const found = listeners.get(/** @type {Element} */ (event.currentTarget))?.[event.type];
  if (found) found(event);
}

/**
 * Makes what is shown like `fresh`, and touches nothing that is the same: focus, scrolling, selections and what
 * somebody is typing stay. Children with a `data-key` are matched by it, others by their place.
 * @param {Element} shown
 * @param {Element} fresh
 */
export function update(shown, fresh) {
  copyAttributes(shown, fresh);
  copyListeners(shown, fresh);
  const keyed = new Map();
  for (const child of shown.children) {
    const key = child.getAttribute("data-key");
    if (key !== null) keyed.set(key, child);
  }
  const staying = new Set([...fresh.children].map((child) => child.getAttribute("data-key")));
  for (const [key, child] of keyed) if (!staying.has(key)) child.remove();
  let place = shown.firstChild;
  for (const wanted of [...fresh.childNodes]) {
    const key = wanted instanceof Element ? wanted.getAttribute("data-key") : null;
    let old = key !== null ? keyed.get(key) : place;
    if (key === null && old instanceof Element && old.getAttribute("data-key") !== null) old = null;
    if (old && isSameKind(old, wanted)) {
      if (old !== place) move(shown, old, place);
      else place = place?.nextSibling ?? null;
      if (old instanceof Element) update(old, /** @type {Element} */ (wanted));
      else if (old.nodeValue !== wanted.nodeValue) old.nodeValue = wanted.nodeValue;
    } else {
      shown.insertBefore(wanted, place);
      if (old && key === null) {
        place = old.nextSibling;
        old.remove();
      }
    }
  }
  while (place) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
  if (shown instanceof HTMLSelectElement) choose(shown);
}

/** What somebody chose outlives the attribute, unless the attribute says something else. @param {HTMLSelectElement} shown */
function choose(shown) {
  const wanted = /** @type {HTMLOptionElement | null} */ (shown.querySelector("option[selected]"));
  if (wanted && shown.value !== wanted.value) shown.value = wanted.value;
}

/** Where the browser can, without taking the focus away. @param {any} parent @param {Node} child @param {Node | null} before */
function move(parent, child, before) {
  if (parent.moveBefore) parent.moveBefore(child, before);
  else parent.insertBefore(child, before);
}

/** @param {Node} one @param {Node} other */
function isSameKind(one, other) {
  return one.nodeType === other.nodeType && one.nodeName === other.nodeName;
}

/** @param {Element} shown @param {Element} fresh */
function copyAttributes(shown, fresh) {
  // Whether it is open is the reader's business, and what is typed the writer's.
  const kept = shown instanceof HTMLDetailsElement || shown instanceof HTMLDialogElement ? "open" : "";
  const ticked = shown.hasAttribute("checked") !== fresh.hasAttribute("checked");
  for (const { name } of [...shown.attributes]) {
    if (name !== kept && !fresh.hasAttribute(name)) shown.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (shown.getAttribute(name) !== value) shown.setAttribute(name, value);
  }
  if (ticked && shown instanceof HTMLInputElement && shown.type === "checkbox") shown.checked = fresh.hasAttribute("checked");
}

/** @param {Element} shown @param {Element} fresh */
function copyListeners(shown, fresh) {
  const wanted = listeners.get(fresh);
  const before = listeners.get(shown) ?? {};
  if (!wanted) return;
  for (const type of Object.keys(wanted)) if (!(type in before)) shown.addEventListener(type, dispatch);
  listeners.set(shown, wanted);
}

/** Shows these and nothing else. @param {Element} parent @param {...Child} children */
export function show(parent, ...children) {
  const fresh = /** @type {Element} */ (parent.cloneNode(false));
  append(fresh, children);
  update(parent, fresh);
}
