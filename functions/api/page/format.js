// Numbers, money and times as people read them.

/** @param {string | number | null | undefined} usd @param {number} [decimals] without it, as many as it takes */
export function money(usd, decimals) {
  if (usd === null || usd === undefined || usd === "") return "–";
  const value = Number(usd);
  if (!Number.isFinite(value)) return "–";
  const digits = value !== 0 && Math.abs(value) < 0.995 && Math.round(value * 100) !== value * 100 ? 3 : 2;
  return value.toLocaleString("en-US", { style: "currency", currency: "USD", minimumFractionDigits: decimals ?? 2, maximumFractionDigits: decimals ?? digits });
}

/** How long, in two units at most. @param {number} ms */
export function duration(ms) {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 10) return seconds % 60 ? `${minutes} min ${seconds % 60} s` : `${minutes} min`;
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return minutes % 60 && hours < 10 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
  const days = Math.floor(hours / 24);
  return hours % 24 && days < 10 ? `${days} d ${hours % 24} h` : `${days} d`;
}

/** @param {string} time */
export function since(time) {
  return duration(Date.now() - Date.parse(time));
}

/** @param {string} time */
export function until(time) {
  const left = Date.parse(time) - Date.now();
  return left >= 1000 ? `in ${duration(left)}` : "now";
}

/** The time of day, with the day where it is another one. @param {string | number} time */
export function clock(time) {
  const moment = new Date(time);
  const today = new Date().toDateString() === moment.toDateString();
  /** @type {Intl.DateTimeFormatOptions} */
  const wanted = today ? {} : { month: "short", day: "numeric" };
  return moment.toLocaleString("en-GB", { ...wanted, hour: "2-digit", minute: "2-digit", second: "2-digit" });
}

/** @param {number} count @param {string} one @param {string} [many] */
export function plural(count, one, many = `${one}s`) {
  return `${count.toLocaleString("en-US")} ${count === 1 ? one : many}`;
}

/** A time for somebody who points at it: whole, and where it is. @param {string | number} time */
export function exact(time) {
  return new Date(time).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "long" });
}
