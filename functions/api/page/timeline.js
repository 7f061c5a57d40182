// An instance's history drawn to scale: its status, purchases, machines and events, each in a lane.

import { draw, h } from "./dom.js";
import { clock, duration, exact, money } from "./format.js";
import { actorInWords, eventInWords, healthInWords, isTakenAway, statusWord, tone } from "./words.js";

const LEFT = 92;
const RIGHT = 14;
const LANE = 34;
const ENDED = ["terminated"];
const MISSING = "instance.missing";
const SIGHT = [MISSING, "instance.found"]; // which leave the status as it is
const START_MS = 600_000;
const LETTER = 6.6; // how wide one is, about
const ROW = 10;
const TOUCH = 11;

/** @typedef {{ from: number, to: number, label: string, kind: string }} Bar */
/** @typedef {{ name: string, bars: Bar[] }} Lane */

const chosen = { sequence: 0, span: "all" };

export function forgetChosen() {
  Object.assign(chosen, { sequence: 0, span: "all" });
}

/**
 * @param {Instance} one
 * @param {{ events: InstanceEvent[], intervals: Interval[], rounds: Map<string, HealthResult> }} known events oldest first; what was billed and which health rounds were made, as far as that is known
 * @param {number} width
 * @param {() => void} onChange
 */
export function timeline(one, { events, intervals, rounds }, width, onChange) {
  const first = events[0];
  const last = events.at(-1);
  if (!first || !last) return h("p", { class: "soft" }, "No event of the last 30 days is kept.");
  const over = ENDED.includes(one.status);
  const begin = Date.parse(first.timestamp);
  const end = Math.max(over ? Date.parse(last.timestamp) : Date.now(), begin + 1000);
  const spans = spansOf(begin, end);
  const span = spans.find((each) => each.key === chosen.span) ?? { key: "all", text: "All", from: begin, to: end };
  const purchases = purchaseLane(events, end);
  const lanes = [statusLane(events, intervals, end), ...(purchases.bars.length ? [purchases] : []), ...machineLanes(one, events, intervals, end)];
  const selected = events.find((event) => event.sequence === chosen.sequence) ?? last;
  return h(
    "div", { class: "timeline" },
    h(
      "div", { class: "row between" },
      h("p", { class: "soft small" }, `${clock(span.from)} to ${over || span.to < end ? clock(span.to) : "now"}: ${duration(span.to - span.from)}, to scale`),
      spans.length > 1 && h("div", { class: "segmented", role: "group", "aria-label": "Shown span" }, spans.map((each) => h("button", { type: "button", "aria-pressed": String(each.key === span.key), on: { click: () => { chosen.span = each.key; onChange(); } } }, each.text))),
    ),
    picture({ one, events, lanes, rounds, from: span.from, end: span.to, now: over ? null : end, width: Math.max(300, width), selected, onChange }),
    details(selected, events),
  );
}

/** What may be looked at more closely. @param {number} begin @param {number} end */
function spansOf(begin, end) {
  const spans = [{ key: "all", text: "All", from: begin, to: end }];
  if (end - begin > 1.5 * START_MS) spans.push({ key: "start", text: "First 10 min", from: begin, to: begin + START_MS });
  if (end - begin > 86_400_000) spans.push({ key: "day", text: "Last day", from: end - 86_400_000, to: end });
  if (end - begin > 3_600_000) spans.push({ key: "hour", text: "Last hour", from: end - 3_600_000, to: end });
  return spans;
}

/** @param {InstanceEvent[]} events @param {Interval[]} intervals @param {number} end @returns {Lane} */
function statusLane(events, intervals, end) {
  const moves = events.filter((event) => event.type === `instance.${event.status}` || SIGHT.includes(event.type));
  const bars = moves.flatMap((event, place) => {
    if (event.status === "terminated") return [];
    const next = moves[place + 1];
    const from = Date.parse(event.timestamp);
    const to = next ? Date.parse(next.timestamp) : end;
    /** @param {string} word @param {number} begin @param {number} until @returns {Bar} */
    const bar = (word, begin, until) => ({ from: begin, to: until, kind: isTakenAway(event) || event.type === MISSING ? "bad" : tone(event.status), label: `${word}, ${duration(until - begin)}` });
    if (event.type === MISSING) return [bar("missing", from, to)];
    const pulled = event.status === "starting" && moves[place - 1]?.status === "creating" ? pullingSince(event, intervals, from, to) : null;
    if (pulled) return [bar("starting", from, pulled), bar("pulling", pulled, to)];
    return [bar(isTakenAway(event) ? "taken away" : statusWord(event.status), from, to)];
  });
  return { name: "status", bars };
}

/** Novita bills a new machine from when it pulls the image. @param {InstanceEvent} event @param {Interval[]} intervals @param {number} from @param {number} to */
function pullingSince(event, intervals, from, to) {
  const times = intervals.filter((one) => one.novitaInstanceId === event.novitaInstanceId).map((one) => Date.parse(one.from));
  return times.find((time) => time > from && time < to) ?? null;
}

/** From when a machine was looked for until it was bought, or until that was given up. @param {InstanceEvent[]} events @param {number} end @returns {Lane} */
function purchaseLane(events, end) {
  /** @type {Bar[]} */
  const bars = [];
  const moves = events.filter((event) => event.type === `instance.${event.status}`);
  moves.forEach((event, place) => {
    if (event.status !== "creating") return;
    const next = moves[place + 1];
    const from = Date.parse(event.timestamp);
    const to = next ? Date.parse(next.timestamp) : end;
    const outcome = !next ? "looking" : next.status === "starting" ? "bought" : "given up";
    bars.push({ from, to, kind: outcome === "bought" ? "accent" : outcome === "looking" ? "busy" : "bad", label: `${outcome} ${outcome === "looking" ? "for" : "after"} ${duration(to - from)}` });
  });
  return { name: "purchases", bars };
}

/** @param {Instance} one @param {InstanceEvent[]} events @param {Interval[]} intervals @param {number} end @returns {Lane[]} */
function machineLanes(one, events, intervals, end) {
  const billed = intervals.filter((one) => one.from);
  const ids = [...new Set([...billed.map((one) => one.novitaInstanceId), ...events.flatMap((event) => event.novitaInstanceId ?? [])])].filter(Boolean);
  return ids.map((id, place) => {
    const own = billed.filter((each) => each.novitaInstanceId === id);
    const kept = Boolean(one.hasMachine) && one.novitaInstanceId === id;
    const bars = own.length ? withPauses(own.map((each) => billedBar(each, end)), kept ? end : 0) : seenBars(id, events, end);
    return { name: ids.length > 1 ? `machine ${place + 1}` : "machine", bars };
  });
}

/** It is there in between, too, and costs nothing. @param {Bar[]} bars @param {number} until */
function withPauses(bars, until) {
  return bars.flatMap((bar, place) => {
    const next = bars[place + 1]?.from ?? until;
    return next - bar.to < 1000 ? [bar] : [bar, { from: bar.to, to: next, kind: "hollow", label: "off, nothing billed" }];
  });
}

/** @param {Interval} one @param {number} end @returns {Bar} */
function billedBar(one, end) {
  const from = Date.parse(one.from);
  const to = one.to ? Date.parse(one.to) : end;
  const running = one.kind === "running";
  return { from, to, kind: running ? "accent" : "hollow", label: `${running ? "billed" : "disk only"}, ${one.estimated ? "≈ " : ""}${money(one.amountUsd)}` };
}

/** As the events tell it, where no bill does. @param {string} id @param {InstanceEvent[]} events @param {number} end @returns {Bar[]} */
function seenBars(id, events, end) {
  /** @type {Bar[]} */
  const bars = [];
  events.forEach((event, place) => {
    if (event.novitaInstanceId !== id || ["terminated", "creating"].includes(event.status)) return;
    const next = events[place + 1];
    const to = next ? Date.parse(next.timestamp) : end;
    const kind = ["stopped", "exited"].includes(event.status) ? "hollow" : "accent";
    const before = bars.at(-1);
    if (before && before.kind === kind && before.to === Date.parse(event.timestamp)) before.to = to;
    else bars.push({ from: Date.parse(event.timestamp), to, kind, label: kind === "hollow" ? "off" : "on" });
  });
  return bars;
}

/** @param {{ one: Instance, events: InstanceEvent[], lanes: Lane[], rounds: Map<string, HealthResult>, from: number, end: number, now: number | null, width: number, selected: InstanceEvent, onChange: () => void }} given */
function picture({ one, events, lanes, rounds, from, end, now, width, selected, onChange }) {
  const height = (lanes.length + 1) * LANE + 48;
  const scale = (width - LEFT - RIGHT) / (end - from);
  const x = (/** @type {number} */ time) => LEFT + Math.max(0, Math.min(time, end) - from) * scale;
  const dots = (lanes.length + 0.5) * LANE + 18;
  const bottom = height - 26;
  return draw(
    "svg", { class: "picture", viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label": `Timeline of ${one.name}: arrow keys go from event to event` },
    ticks(from, end, width).map((time) => [
      draw("line", { class: "grid", x1: x(time), x2: x(time), y1: 2, y2: bottom }),
      draw("text", { x: x(time), y: height - 8, "text-anchor": time - from < (end - from) / 20 ? "start" : "middle" }, tickText(time, end - from)),
    ]),
    lanes.map((lane, place) => laneOf(lane, place * LANE + 4, x, from, end)),
    [...rounds].filter(([at]) => Date.parse(at) >= from && Date.parse(at) <= end).map(([at, health]) => round(at, health, x(Date.parse(at)))),
    draw("text", { x: 0, y: dots + 4 }, "events"),
    now !== null && now <= end && draw("line", { class: "now", x1: x(now), x2: x(now), y1: 2, y2: bottom }),
    apart(events.filter((event) => Date.parse(event.timestamp) >= from && Date.parse(event.timestamp) <= end), x).map(({ event, at, row, touch }) => dot(event, at, dots - row * ROW, touch, event === selected, events, onChange)),
  );
}

/** Those that would lie on one another get rows of their own. @param {InstanceEvent[]} events @param {(time: number) => number} x */
function apart(events, x) {
  const taken = [-Infinity, -Infinity, -Infinity];
  const places = events.map((event) => x(Date.parse(event.timestamp)));
  return events.map((event, place) => {
    const at = places[place] ?? 0;
    const free = taken.findIndex((before) => at - before >= 10);
    const row = free < 0 ? 0 : free;
    taken[row] = at;
    const crowded = [places[place - 1], places[place + 1]].some((other) => other !== undefined && Math.abs(other - at) < 2 * TOUCH);
    return { event, at, row, touch: crowded ? ROW / 2 : TOUCH };
  });
}

/** @param {Lane} lane @param {number} y @param {(time: number) => number} x @param {number} from @param {number} end */
function laneOf(lane, y, x, from, end) {
  const shown = lane.bars.filter((bar) => bar.to >= from && bar.from <= end);
  return draw(
    "g", {},
    draw("text", { x: 0, y: y + 16 }, lane.name),
    shown.map((bar, place) => {
      const left = x(bar.from);
      const width = Math.max(2, x(bar.to) - left - 1);
      const room = bar.label.length * LETTER + 12;
      const fits = room < width;
      const next = shown[place + 1];
      const beside = !fits && lane.name !== "status" && left + width + room < (next ? x(next.from) : x(end));
      return draw(
        "g", { class: `bar-${bar.kind}` },
        draw("title", {}, bar.label),
        draw("rect", { x: left, y, width, height: 22, rx: Math.min(4, width / 2) }),
        fits && draw("text", { class: "inside", x: left + 7, y: y + 15 }, bar.label),
        beside && draw("text", { x: left + width + 7, y: y + 15 }, bar.label),
      );
    }),
  );
}

/** A round of health checks, below the status that it was made in. @param {string} at @param {HealthResult} health @param {number} x */
function round(at, health, x) {
  const well = health.overall === "healthy";
  return draw("g", { class: `round ${well ? "well" : "ill"}` }, draw("title", {}, `health round ${clock(at)}: ${healthInWords(health)}`), draw("path", { d: well ? `M${x} 22v8` : `M${x - 3} 23l6 6m0 -6l-6 6` }));
}

/** @param {InstanceEvent} event @param {number} x @param {number} y @param {number} touch how far around it still means it @param {boolean} selected @param {InstanceEvent[]} events @param {() => void} onChange */
function dot(event, x, y, touch, selected, events, onChange) {
  const choose = (/** @type {number} */ sequence) => {
    if (chosen.sequence === sequence) return;
    chosen.sequence = sequence;
    onChange();
  };
  const bad = Boolean(event.error) || /failed|missing|stuck|reclaim/.test(event.type);
  return draw(
    "g",
    {
      class: `dot${selected ? " selected" : ""}${bad ? " bad" : ""}`, role: "button", tabindex: selected ? 0 : -1, "data-key": event.id, "data-sequence": event.sequence,
      "aria-label": `${clock(event.timestamp)}: ${eventInWords(event)}`, "aria-pressed": String(selected),
      on: {
        focus: () => choose(event.sequence),
        pointerenter: () => choose(event.sequence),
        click: () => choose(event.sequence),
        keydown: (/** @type {KeyboardEvent} */ pressed) => {
          const steps = /** @type {Record<string, number>} */ ({ ArrowRight: 1, ArrowLeft: -1, Home: -events.length, End: events.length });
          const step = steps[pressed.key];
          if (!step) return;
          pressed.preventDefault();
          const place = Math.min(events.length - 1, Math.max(0, events.indexOf(event) + step));
          const target = events[place];
          if (target) /** @type {SVGElement | null} */ (document.querySelector(`.dot[data-sequence="${target.sequence}"]`))?.focus();
        },
      },
    },
    draw("circle", { class: "touch", cx: x, cy: y, r: touch }),
    draw("circle", { class: "ring", cx: x, cy: y, r: TOUCH }),
    bad ? draw("path", { d: `M${x} ${y - 6}l6 10.5h-12z` }) : draw("circle", { cx: x, cy: y, r: 4.5 }),
  );
}

/** @param {InstanceEvent} event @param {InstanceEvent[]} events */
function details(event, events) {
  const place = events.indexOf(event);
  const before = events[place - 1];
  return h(
    "div", { class: "chosen" },
    h("p", {}, h("b", {}, eventInWords(event))),
    h("p", { class: "soft small" }, `${exact(event.timestamp)}, by ${actorInWords(event.actor)}`, before ? `, ${duration(Date.parse(event.timestamp) - Date.parse(before.timestamp))} after the one before` : "", event.novitaInstanceId ? `, machine ${event.novitaInstanceId}` : "", ` · ${event.type}, event ${place + 1} of ${events.length}`),
  );
}

const STEPS_MS = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14_400, 28_800, 43_200, 86_400, 172_800, 432_000, 864_000].map((seconds) => seconds * 1000);

/** @param {number} from @param {number} end @param {number} width */
function ticks(from, end, width) {
  const most = Math.max(2, Math.floor((width - LEFT) / 110));
  const step = STEPS_MS.find((ms) => (end - from) / ms <= most) ?? 864_000_000;
  const shift = new Date(from).getTimezoneOffset() * 60_000;
  const found = [];
  for (let time = Math.ceil((from - shift) / step) * step + shift; time < end; time += step) found.push(time);
  return found;
}

/** @param {number} time @param {number} span */
function tickText(time, span) {
  /** @type {Intl.DateTimeFormatOptions} */
  const wanted = span > 2 * 86_400_000 ? { month: "short", day: "numeric" } : span > 600_000 ? { hour: "2-digit", minute: "2-digit" } : { hour: "2-digit", minute: "2-digit", second: "2-digit" };
  return new Date(time).toLocaleString("en-GB", wanted);
}
