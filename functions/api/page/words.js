// What statuses, reasons and refusals mean, said as a person would.

import { h } from "./dom.js";
import { clock, duration, exact, money, plural, since, until } from "./format.js";

/** How a status feels: good, busy, bad or off. @type {Record<string, string>} */
const TONES = {
  creating: "busy", starting: "busy", running: "ok", health_checking: "busy", ready: "ok", stopping: "busy",
  stopped: "off", exited: "off", migrating: "busy", failed: "bad", deleting: "busy", terminated: "off",
};

export const STATUSES = Object.keys(TONES);
export const UP = ["running", "health_checking", "ready"];
export const ON_THE_WAY = ["creating", "starting", "migrating"];
const STARTABLE = ["stopped", "exited", "failed"];
const STOPPABLE = ["starting", "running", "health_checking", "ready", "migrating"];
const SEEN = ["starting", "running", "health_checking", "ready", "migrating", "stopping", "stopped", "exited"];
const UNSEEN_MS = 180_000;
const LATE_SWEEP_MS = 300_000;
const BILLED = ["starting", "running", "health_checking", "ready", "migrating", "stopping"];

/** @param {string} status */
export function tone(status) {
  return TONES[status] ?? "off";
}

/** @param {string} status */
export function statusWord(status) {
  return status.replaceAll("_", " ");
}

/** Off, but not to stay so. @param {Instance} one */
export function isComingBack(one) {
  return Boolean(one.recovering) && one.status === "exited";
}

/** @param {Instance} one */
export function statusPill(one) {
  if (one.missingSince) return h("span", { class: "pill bad" }, "missing");
  if (isComingBack(one)) return h("span", { class: "pill busy" }, "recovering");
  return h("span", { class: `pill ${tone(one.status)}` }, statusWord(one.status));
}

/** @param {Instance} one */
export function actionsFor(one) {
  const ended = one.status === "terminated" || one.status === "deleting";
  const missing = Boolean(one.missingSince);
  const going = one.cleanup?.some((task) => task.action === "delete") ?? false;
  return {
    start: !missing && !going && Boolean(one.hasMachine) && STARTABLE.includes(one.status),
    stop: STOPPABLE.includes(one.status) || Boolean(one.recovering) || isFailedAndOn(one),
    restart: !missing && UP.includes(one.status),
    extend: !ended,
    remove: !ended && !one.protected,
  };
}

/** @param {Instance} one */
export function perHour(one) {
  if (one.cost) return Number(one.cost.perHourUsd);
  if (!one.pricePerGpuHour || !BILLED.includes(one.status)) return null;
  return Number(one.pricePerGpuHour) * one.gpuNum;
}

/** Failed, with a machine that was to be kept, and runs. @param {Instance} one */
function isFailedAndOn(one) {
  return one.status === "failed" && Boolean(one.hasMachine) && !one.cleanup?.length && one.novitaStatus !== "exited";
}

/** What becomes of a failed one's machine and of its costs. @param {Instance} one */
export function afterFailure(one) {
  const hourly = perHour(one);
  const tasks = one.cleanup ?? [];
  if (tasks.length) {
    const what = tasks.length > 1 ? `${tasks.length} machines of it are` : "its machine is";
    return `${what} being ${tasks[0]?.action === "stop" ? "stopped" : "given back"}${hourly ? ` and ${tasks.length > 1 ? "cost" : "costs"} ${money(hourly)} per hour until then` : ""}`;
  }
  if (!one.hasMachine) return "no machine of it is billed";
  return isFailedAndOn(one) ? `its machine is kept${hourly ? ` and costs ${money(hourly)} per hour` : ""}` : "its machine is stopped, and can be started again";
}

/** Its addresses, while something may answer there. @param {Instance} one */
export function endpoints(one) {
  return UP.includes(one.status) || isFailedAndOn(one) ? (one.portMappings ?? []).filter((port) => port.endpoint) : [];
}

/** Since when Novita has not shown its machine, if that is longer ago than two sweeps can take. @param {Instance} one */
export function unseenSince(one) {
  if (!one.lastSyncedAt || !one.hasMachine || !SEEN.includes(one.status)) return null;
  return Date.now() - Date.parse(one.lastSyncedAt) > UNSEEN_MS ? one.lastSyncedAt : null;
}

/** What is wrong with the service itself, worst first. @param {ServiceStatus} status */
export function concerns(status) {
  const { comparisonError, lastComparedAt, lastSweepAt, orphans, orphanDeletionsHeld, stuckCleanups } = status;
  /** @type {{ kind: "bad" | "busy", text: string }[]} */
  const found = [];
  const bad = (/** @type {string} */ text) => found.push({ kind: "bad", text });
  if (lastSweepAt && Date.now() - Date.parse(lastSweepAt) > LATE_SWEEP_MS) bad(`No sweep has ended for ${since(lastSweepAt)}; one should each minute. What is lost meanwhile is not found.`);
  if (status.keyProven === false) bad("The Novita key is not proven: nothing is bought, and nothing that Novita does not find counts as gone.");
  if (orphans) bad(`${plural(orphans, "machine")} of Ostler's at Novita without an instance here (${plural(orphans, "orphan")}), which may cost money: import or delete ${orphans === 1 ? "it" : "them"}.${orphanDeletionsHeld ? " They are too many at once to be deleted without being asked." : ""}`);
  if (stuckCleanups) bad(`Novita does not take back ${plural(stuckCleanups, "machine")}, which may go on costing money.`);
  if (comparisonError) bad(`Novita's list could not be read: ${comparisonError.message}${lastComparedAt ? `; last compared ${since(lastComparedAt)} ago` : ""}`);
  if (status.purchasesPaused) found.push({ kind: "busy", text: `Nothing is bought or started: paused ${status.pausedAt ? `${since(status.pausedAt)} ago ` : ""}by ${status.pausedBy ?? "somebody"}.` });
  return found;
}

/** @type {Record<string, string>} */
const REGION_REASONS = {
  OFFERED: "can be had",
  NOT_SOLD_IN_REGION: "not sold",
  BILLING_MODE_NOT_OFFERED: "not with this billing",
  NOT_AVAILABLE: "sold out",
  ROOTFS_SIZE_OUT_OF_BOUNDS: "not with this disk",
  NO_PRICE: "without a price",
  UNKNOWN_CLUSTER: "in no known cluster",
  RESOURCE_CONSTRAINTS: "no room",
  PRICE_CAP_EXCEEDED: "above your price cap",
};

/** @param {string} reason */
export function regionReason(reason) {
  return REGION_REASONS[reason] ?? reason;
}

/** The regions of an error's or an event's details, if it has any. @param {Record<string, unknown> | undefined} details @returns {Record<string, string>} */
export function regionsIn(details) {
  const regions = details?.regions;
  return regions && typeof regions === "object" ? /** @type {Record<string, string>} */ (regions) : {};
}

/** @param {Record<string, string>} regions */
function regionsInWords(regions) {
  /** @type {Map<string, string[]>} */
  const byReason = new Map();
  for (const [region, reason] of Object.entries(regions)) {
    if (reason === "OFFERED") continue;
    byReason.set(reason, [...(byReason.get(reason) ?? []), region]);
  }
  return [...byReason].map(([reason, names]) => `${regionReason(reason)} in ${names.join(", ")}`).join("; ");
}

/** @param {Fault} fault */
export function faultInWords(fault) {
  const regions = regionsInWords(regionsIn(fault.details));
  return regions ? `nothing can be had: ${regions}` : fault.message;
}

/** Why it is as it is and what comes next: the second line of a row. @param {Instance} one */
export function why(one) {
  if (one.missingSince) return `Novita has not found its machine since ${clock(one.missingSince)}; it is looked for`;
  if (one.status === "failed") {
    const text = one.error ? faultInWords(one.error) : "it did not come up";
    return one.cleanup?.length || isFailedAndOn(one) ? `${text}; ${afterFailure(one)}` : text;
  }
  if (one.recovering) return `taken away by Novita ${since(one.recovering.since)} ago; ${one.recovering.action === "replace" ? "another is being found" : "being started again"}`;
  if (one.spot?.reclaimTime && one.status !== "terminated") return `Novita takes it away ${until(one.spot.reclaimTime)}`;
  if (one.waitingFor) return `${faultInWords(one.waitingFor)}${one.nextCheckAt ? `; next try ${until(one.nextCheckAt)}` : ""}`;
  if (one.statusError) return one.statusError;
  if (one.endedBy && one.endedBy !== "user" && ["stopped", "exited", "terminated", "stopping", "deleting"].includes(one.status)) return ENDED_BY[one.endedBy] ?? one.endedBy;
  if (one.status === "creating") return "looking for a machine to buy";
  if (one.status === "starting") return one.novitaStatus === "pulling" ? "pulling the image" : "on its way up";
  if (one.status === "health_checking") return "runs; the application inside is being asked";
  if (one.status === "deleting") return "gone once Novita confirms it";
  return "";
}

/** @type {Record<string, string>} */
export const ENDED_BY = {
  user: "by hand", lifetime: "its time was over", idle: "it was idle", stopped_too_long: "it was stopped for too long",
  budget: "a budget was spent", reclaim: "Novita took it away", failure: "it failed", vanished: "it vanished at Novita",
  novita: "by somebody at Novita",
};

/** What ends when, in one line and perhaps a second. @param {Instance} one */
export function ends(one) {
  /** @type {string[]} */
  const lines = [];
  if (one.status === "terminated" || one.status === "deleting") return lines;
  if (one.givesUpAt && ["creating", "starting", "health_checking"].includes(one.status)) lines.push(`gives up ${until(one.givesUpAt)}`);
  if (one.expiry?.stopAt && (!["stopped", "exited", "failed"].includes(one.status) || isFailedAndOn(one))) lines.push(`stops ${until(one.expiry.stopAt)}`);
  if (one.expiry?.deleteAt) lines.push(one.protected ? `protected; else deleted ${until(one.expiry.deleteAt)}` : `deleted ${until(one.expiry.deleteAt)}`);
  else if (one.protected) lines.push("protected");
  if (one.limits?.idleStopAfter && !lines.some((line) => line.startsWith("stops"))) lines.push(`stops when idle for ${one.limits.idleStopAfter}`);
  return lines;
}

/** Whether Novita took the machine away, and not somebody there. @param {InstanceEvent} event */
export function isTakenAway(event) {
  return event.type === "instance.exited" && Boolean(event.reason?.startsWith("reclaimed"));
}

/** What happened, as a sentence. @param {InstanceEvent} event */
export function eventInWords(event) {
  const started = event.type === "instance.starting" && (event.operationId || event.reason);
  const again = event.type === "instance.creating" && event.sequence > 1;
  if (isTakenAway(event)) return "taken away by Novita";
  const text = started ? "told to start" : again ? "another machine is looked for" : EVENTS[event.type] ?? event.type.replace(".", " ").replaceAll("_", " ");
  const regions = regionsInWords(regionsIn(event.data));
  const changed = changesInWords(event.data);
  if (changed) return `${text}: ${changed}`;
  const reason = SAID.includes(event.type) ? "" : REASONS[event.reason ?? ""] ?? event.reason;
  const more = [event.error?.message ?? reason, event.type === "instance.creating" || event.type === "instance.starting" ? regions : "", healthInWords(event.healthCheck)];
  return [text, ...more.filter(Boolean)].join("; ");
}

/** What a round of health checks found. @param {HealthResult | undefined} health */
export function healthInWords(health) {
  const all = health?.endpoints ?? [];
  if (!all.length) return "";
  const silent = all.filter((one) => one.status !== "healthy").map((one) => `${one.type} ${one.port} ${one.error?.message ?? "did not"}`);
  return `${all.length - silent.length} of ${plural(all.length, "endpoint")} healthy${silent.length ? `: ${silent.join(", ")}` : ""}`;
}

/** @param {Record<string, unknown> | undefined} data */
function changesInWords(data) {
  const names = Array.isArray(data?.changed) ? data.changed.map(String) : [];
  const changes = /** @type {Record<string, { from?: unknown, to?: unknown } | undefined>} */ (data?.changes ?? {});
  return names
    .map((name) => {
      const change = changes[name];
      if (!change || [change.from, change.to].some((value) => value && typeof value === "object")) return name;
      if (change.to === null || change.to === undefined) return `${name} removed`;
      return change.from === null || change.from === undefined ? `${name} ${change.to}` : `${name} ${change.from} → ${change.to}`;
    })
    .join(", ");
}

/** What has a reason that says the same again. */
const SAID = ["instance.reclaim_notified", "instance.missing"];

/** @type {Record<string, string>} */
const REASONS = { replaced: "", recovery: "to bring it back", imported: "a machine of Novita's was taken over" };

/** @type {Record<string, string>} */
const EVENTS = {
  "instance.creating": "accepted; a machine is looked for",
  "instance.starting": "bought",
  "instance.running": "runs",
  "instance.health_checking": "the application inside is being asked",
  "instance.ready": "ready: the application answered",
  "instance.stopping": "told to stop",
  "instance.stopped": "stopped",
  "instance.exited": "stopped by Novita",
  "instance.migrating": "moved to another host by Novita",
  "instance.failed": "failed",
  "instance.deleting": "told to go",
  "instance.terminated": "gone",
  "instance.missing": "not found at Novita",
  "instance.found": "found again",
  "instance.updated": "changed",
  "instance.expiring": "its time is nearly over",
  "instance.reclaim_notified": "Novita will take it away",
  "instance.machine_error": "its machine reports an error",
  "startup.initiated": "start asked for",
  "startup.completed": "start completed",
  "startup.failed": "start failed",
  "recovery.started": "recovery began",
  "recovery.completed": "recovered",
  "recovery.failed": "recovery given up",
  "cleanup.stuck": "Novita does not take it back",
  "orphan.detected": "a second machine was found",
};

/** @param {string} actor */
export function actorInWords(actor) {
  return actor === "system" ? "Ostler" : actor;
}

/** @param {{ code: string, message: string, requestId?: string, retryAfter?: number }} error */
export function errorInWords(error) {
  const again = error.retryAfter ? ` Try again in ${duration(error.retryAfter * 1000)}.` : "";
  return `${error.message}${again}`;
}

/** A refusal with what finds it in the log. @param {{ code: string, message: string, requestId?: string, retryAfter?: number }} error */
export function errorNote(error) {
  return h(
    "div", { class: "note bad", role: "alert" },
    h("p", {}, errorInWords(error)),
    (error.code || error.requestId) && h("p", { class: "soft small" }, error.code, error.code && error.requestId ? ", " : "", error.requestId && h("span", {}, "request ", h("code", {}, error.requestId))),
  );
}

/** @param {string | undefined} time @param {string} text */
export function timeElement(time, text) {
  return time ? h("time", { datetime: time, title: exact(time) }, text) : h("span", {}, text);
}

/** @param {Cost | undefined} cost */
export function soFar(cost) {
  return cost ? `${cost.estimated ? "≈ " : ""}${money(cost.soFarUsd)}` : "–";
}

/** @type {Record<string, string>} */
export const BILLING = { spot: "spot", onDemand: "on demand" };
