// Talks to the API: the key, errors in words, one Idempotency-Key for each thing that somebody asks for.

const STORED = "ostler-key";
const SLOWEST_MS = 35_000;

/** How callers are known here: "keys", "jwt" or "iam". */
export const auth = document.documentElement.dataset.auth ?? "keys";

/** What the API, or the way to it, refused. */
export class Refused extends Error {
  /** @param {number} status @param {string} code @param {string} message @param {Partial<{requestId: string, retryAfter: number, details: Record<string, unknown>, fields: {field: string, message: string}[]}>} more */
  constructor(status, code, message, more = {}) {
    super(message);
    this.status = status;
    this.code = code;
    this.requestId = more.requestId ?? "";
    this.retryAfter = more.retryAfter ?? 0;
    this.details = more.details ?? {};
    this.fields = more.fields ?? [];
  }
}

/** @type {{ key: string, me: Me | null, lastMs: number, seenAt: number, onRefusedKey: (error: Refused) => void }} */
export const session = { key: sessionStorage.getItem(STORED) ?? "", me: null, lastMs: 0, seenAt: 0, onRefusedKey: () => {} };

/** A link that brings a key is used once: it leaves the address, and with it the history, at once. Whether there was one. */
export function takeKeyFromLink() {
  const brought = /^#key=([^&]+)/.exec(location.hash);
  if (!brought?.[1]) return false;
  history.replaceState(null, "", location.pathname);
  if (auth !== "iam") keepKey(decodeURIComponent(brought[1]));
  return true;
}

/** @param {string} key */
export function keepKey(key) {
  session.key = key;
  sessionStorage.setItem(STORED, key);
}

export function forgetKey() {
  session.key = "";
  session.me = null;
  sessionStorage.removeItem(STORED);
}

/** @param {"read" | "write" | "admin"} scope */
export function may(scope) {
  return session.me?.scopes.includes(scope) ?? false;
}

/**
 * @template T
 * @param {string} path
 * @returns {Promise<T>}
 */
export async function get(path) {
  return await ask("GET", path);
}

/**
 * @template T
 * @param {"POST" | "PATCH" | "PUT" | "DELETE"} method
 * @param {string} path
 * @param {unknown} [body]
 * @param {string} [idempotencyKey]
 * @returns {Promise<T>}
 */
export async function change(method, path, body, idempotencyKey = newKey()) {
  return await ask(method, path, body, method === "POST" || method === "PATCH" ? idempotencyKey : undefined);
}

export function newKey() {
  return crypto.randomUUID();
}

/**
 * @template T
 * @param {string} method
 * @param {string} path
 * @param {unknown} [body]
 * @param {string} [idempotencyKey]
 * @returns {Promise<T>}
 */
async function ask(method, path, body, idempotencyKey) {
  /** @type {Record<string, string>} */
  const headers = { Authorization: `Bearer ${session.key}` };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (idempotencyKey) headers["Idempotency-Key"] = idempotencyKey;
  const began = performance.now();
  let answer;
  try {
    answer = await fetch(path, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: "omit",
      cache: "no-store",
      signal: AbortSignal.timeout(SLOWEST_MS),
    });
  } catch {
    throw new Refused(0, "NOT_REACHED", "The service cannot be reached from here.");
  }
  session.lastMs = performance.now() - began;
  const told = await answer.json().catch(() => null);
  if (answer.ok && told) {
    session.seenAt = Date.now();
    return told;
  }
  const refused = asRefused(answer, told);
  if (refused.status === 401) session.onRefusedKey(refused);
  throw refused;
}

/** @param {Response} answer @param {any} told */
function asRefused(answer, told) {
  const error = told?.error ?? {};
  const requestId = error.requestId ?? answer.headers.get("X-Request-ID") ?? "";
  const retryAfter = Number(error.retryAfter ?? answer.headers.get("Retry-After") ?? 0);
  const message = error.message ?? told?.message ?? `The service answered ${answer.status}.`;
  const fields = error.validationErrors ?? [];
  return new Refused(answer.status, error.code ?? "", message, { requestId, retryAfter, details: error.details, fields });
}
