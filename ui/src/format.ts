// How times, durations and numbers are written. Pure.

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** Seconds as `mm:ss`, or `h:mm:ss` from an hour on. */
export function duration(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  const two = (value: number) => String(value).padStart(2, "0");
  const hours = Math.floor(whole / HOUR);
  const rest = `${two(Math.floor((whole % HOUR) / MINUTE))}:${two(whole % MINUTE)}`;
  return hours > 0 ? `${hours}:${rest}` : rest;
}

/** How long ago, in one unit: `now`, `42s`, `7m`, `3h`, `12d`. */
export function age(instant: string | undefined, now: number): string {
  if (!instant) return "–";
  const seconds = Math.floor((now - Date.parse(instant)) / 1000);
  if (seconds < 2) return "now";
  if (seconds < MINUTE * 2) return `${seconds}s`;
  if (seconds < HOUR * 2) return `${Math.floor(seconds / MINUTE)}m`;
  if (seconds < DAY * 2) return `${Math.floor(seconds / HOUR)}h`;
  return `${Math.floor(seconds / DAY)}d`;
}

/** How long until: `due`, `in 42s`, `in 7m`. */
export function until(instant: string | undefined, now: number): string {
  if (!instant) return "–";
  const ahead = Date.parse(instant) - now;
  return ahead <= 0 ? "due" : `in ${age(new Date(now - ahead).toISOString(), now)}`;
}

/** Whole numbers with thin separators. */
export function count(value: number): string {
  return String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, "\u2009");
}

/** 12 345 → `12.3k`. */
export function short(value: number): string {
  if (value < 1000) return String(value);
  if (value < 1_000_000) return `${(value / 1000).toFixed(1)}k`;
  return `${(value / 1_000_000).toFixed(1)}M`;
}

export function exact(instant: string | undefined): string {
  return instant ? new Date(instant).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" }) : "";
}
