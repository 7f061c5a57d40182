// The fleet as far as it is known here, read page by page without asking Novita.

import { change, get } from "./api.js";

const PAGE = 100;

/** @type {{ all: Map<string, Instance>, total: number | null, complete: boolean, loadedAt: number }} */
export const fleet = { all: new Map(), total: null, complete: false, loadedAt: 0 };

/** Where the next read of older ones goes on; null begins at the newest again. @type {string | null} */
let older = null;
/** Which ones the walk through all pages has met, to know who is gone. @type {Set<string>} */
let met = new Set();

export function forgetFleet() {
  fleet.all.clear();
  Object.assign(fleet, { total: null, complete: false, loadedAt: 0 });
  older = null;
  met = new Set();
}

/** @param {Instance} one */
export function keep(one) {
  const known = fleet.all.get(one.instanceId);
  if (!known || known.updatedAt <= one.updatedAt) fleet.all.set(one.instanceId, one);
}

/**
 * The newest, and one page of the older ones: two requests, however many there are. Until all have been read
 * once, page after page.
 * @param {() => void} onPage
 */
export async function readFleet(onPage) {
  const newest = await readPage(null);
  if (older === null) beginWalk(newest);
  onPage();
  while (older !== null) {
    const page = await readPage(older);
    for (const one of page.instances) met.add(one.instanceId);
    older = page.nextCursor ?? null;
    if (older === null) endWalk();
    onPage();
    if (fleet.complete) break;
  }
}

/** @param {InstancesPage} newest */
function beginWalk(newest) {
  met = new Set(newest.instances.map((one) => one.instanceId));
  older = newest.nextCursor ?? null;
  if (older === null) endWalk();
}

function endWalk() {
  const oldest = Date.now() - 60_000; // one that has been made meanwhile was not there to be met
  for (const [id, one] of fleet.all) if (!met.has(id) && Date.parse(one.createdAt) < oldest) fleet.all.delete(id);
  fleet.complete = true;
}

/** @param {string | null} cursor @returns {Promise<InstancesPage>} */
async function readPage(cursor) {
  /** @type {InstancesPage} */
  const page = await get(`/api/instances?limit=${PAGE}${cursor ? `&cursor=${encodeURIComponent(cursor)}` : ""}`);
  for (const one of page.instances) keep(one);
  if (page.total !== undefined) fleet.total = page.total;
  fleet.loadedAt = Date.now();
  return page;
}

/** @type {Record<string, string>} */
const ON_ITS_WAY = { start: "starting", stop: "stopping", restart: "starting", delete: "deleting" };

/**
 * Starts, stops, restarts or deletes; shown as begun at once, and as it was if it is refused.
 * @param {Instance} one
 * @param {"start" | "stop" | "restart" | "delete"} what
 * @param {() => void} onChange
 * @returns {Promise<{ message: string, cost?: Cost }>}
 */
export async function operate(one, what, onChange) {
  const before = fleet.all.get(one.instanceId) ?? one;
  fleet.all.set(one.instanceId, { ...before, status: ON_ITS_WAY[what] ?? one.status, waitingFor: undefined });
  onChange();
  const path = `/api/instances/${encodeURIComponent(one.instanceId)}`;
  try {
    return await (what === "delete" ? change("DELETE", path) : change("POST", `${path}/${what}`));
  } catch (error) {
    fleet.all.set(one.instanceId, before);
    onChange();
    throw error;
  }
}
