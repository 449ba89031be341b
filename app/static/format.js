// Numbers and labels as people read them.

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const SHORT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export const whole = (value) => (value == null ? "–" : WHOLE.format(value));
export const short = (value) => (value == null ? "–" : SHORT.format(value));

export function percent(value, digits = 1) {
  return value == null ? "–" : `${(100 * value).toFixed(digits)}%`;
}

/** A share of traffic: small ones are not shown as 0. */
export function share(value) {
  if (value > 0 && value < 0.001) return "<0.1%";
  return percent(value, value >= 0.1 ? 0 : 1);
}

/** A number with four digits that count, without an exponent where it can be done without. */
export function plain(value) {
  if (value == null) return "–";
  const size = Math.abs(value);
  if (size >= 10000) return WHOLE.format(value);
  if (size !== 0 && size < 0.001) return value.toExponential(1);
  return String(Number(value.toPrecision(4)));
}

export function bytes(value) {
  if (value == null) return "–";
  const units = ["B", "KiB", "MiB", "GiB"];
  let place = 0;
  while (value >= 1024 && place < units.length - 1) {
    value /= 1024;
    place += 1;
  }
  return `${value.toFixed(place && value < 100 ? 1 : 0)} ${units[place]}`;
}

/** A label as it is written: text bare, everything else as JSON. */
export const label = (value) => (typeof value === "string" ? value : JSON.stringify(value));

/** A test with the signs of mathematics, and numbers that are not longer than they need be. */
export function test(text) {
  return text
    .replaceAll("<=", "≤")
    .replaceAll(">=", "≥")
    .replace(/-?\d+\.\d{3,}(?:e[-+]?\d+)?/g, (found) => plain(Number(found)));
}

export function cut(text, length) {
  return text.length > length ? `${text.slice(0, length - 1)}…` : text;
}

/** The time of day of a moment in seconds since 1970, or of an RFC 3339 text. */
export function clock(moment) {
  const date = new Date(typeof moment === "number" ? moment * 1000 : moment);
  return Number.isNaN(date.valueOf()) ? "–" : date.toLocaleTimeString("en-GB");
}
