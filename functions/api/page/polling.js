// Keeps what is shown up to date: not while nobody looks, and slower while the service is slow or refuses.

import { Refused, session } from "./api.js";

const MOST_MS = 60_000;
const SLOW_MS = 10_000; // between two looks at a service that is slow: one slow answer must not look like a standstill

/** @type {{ stop: () => void, now: () => void } | null} */
let running = null;

/** @type {(error: Refused | null) => void} */
let onState = () => {};

/** @param {(error: Refused | null) => void} listener */
export function whenPolled(listener) {
  onState = listener;
}

/**
 * Calls `work` now and again and again; what was polled before is polled no more.
 * @param {() => Promise<number | void>} work says after how many milliseconds it wants to be called again
 * @param {number} everyMs
 */
export function poll(work, everyMs) {
  running?.stop();
  let timer = 0;
  let stopped = false;
  let busy = false;
  let again = false;
  let failures = 0;

  async function once() {
    again = busy;
    if (stopped || busy || document.hidden) return;
    busy = true;
    clearTimeout(timer);
    let wait = everyMs;
    let asked = 0; // for so long, by the service itself
    try {
      wait = (await work()) ?? everyMs;
      failures = 0;
      if (!stopped) onState(null);
    } catch (error) {
      failures += 1;
      wait = everyMs * 2 ** Math.min(failures, 5);
      if (!(error instanceof Refused)) throw error; // a fault of the page's own ends no polling
      asked = error.retryAfter * 1000;
      if (!stopped) onState(error);
    } finally {
      busy = false;
      // Pages that were opened together must not ask together, and a slow service is asked less.
      const fair = Math.max(wait, Math.min(session.lastMs * 4, SLOW_MS)) * (0.9 + Math.random() * 0.2);
      if (!stopped && !document.hidden) timer = window.setTimeout(once, again ? 0 : Math.max(asked, Math.min(fair, MOST_MS)));
    }
  }

  running = {
    stop() {
      stopped = true;
      clearTimeout(timer);
    },
    now: () => void once(),
  };
  void once();
}

/** Asks now: somebody has just changed something. */
export function pollNow() {
  running?.now();
}

export function stopPolling() {
  running?.stop();
  running = null;
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden) pollNow();
});
