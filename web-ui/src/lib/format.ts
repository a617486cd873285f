// How figures and names look to people.

const plain = new Intl.NumberFormat('en');
const short = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });

export const count = (n: number): string => (Math.abs(n) < 100_000 ? plain.format(n) : short.format(n));

export const exact = (n: number): string => plain.format(n);

/** A rate: enough digits to see it change. */
export const rate = (n: number): string =>
  n === 0 ? '0' : n < 10 ? n.toFixed(1) : n < 10_000 ? plain.format(Math.round(n)) : short.format(n);

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];

export function bytes(n: number): string {
  let unit = 0;
  // What would be 1024 of a unit when it is rounded is 1 of the next.
  while (n >= 1023.5 && unit < UNITS.length - 1) {
    n /= 1024;
    unit += 1;
  }
  return `${n >= 100 || unit === 0 ? Math.round(n) : n.toFixed(1)} ${UNITS[unit]}`;
}

export function seconds(s: number): string {
  if (s < 0.001) return `${Math.round(s * 1e6)} µs`;
  if (s < 0.1) return `${(s * 1e3).toFixed(1)} ms`;
  if (s < 1) return `${Math.round(s * 1e3)} ms`;
  if (s < 100) return `${s.toFixed(1)} s`;
  const whole = Math.round(s);
  if (whole < 3600) return `${Math.floor(whole / 60)} min${whole % 60 ? ` ${whole % 60} s` : ''}`;
  const minutes = Math.round(s / 60);
  return `${Math.floor(minutes / 60)} h${minutes % 60 ? ` ${minutes % 60} min` : ''}`;
}

export const plural = (n: number, one: string, many = `${one}s`): string => `${count(n)} ${n === 1 ? one : many}`;

/** How long ago an instant of the server was, roughly. */
export function ago(instant: string, now = Date.now()): string {
  const s = (now - Date.parse(instant)) / 1000;
  if (s < 5) return 'just now';
  if (s < 60) return `${Math.round(s)} s ago`;
  if (s < 3600) return `${Math.round(s / 60)} min ago`;
  if (s < 86_400) return `${Math.round(s / 3600)} h ago`;
  return `${plural(Math.round(s / 86_400), 'day')} ago`;
}

/** A time of the day, as people read it, in their own zone. */
export const clock = (ms: number): string => new Date(ms).toLocaleTimeString('sv');

/** An instant as people read it, in their own zone. */
export const instant = (text: string): string =>
  new Date(text).toLocaleString('sv').concat('.', text.slice(20, 23).padEnd(3, '0'));

const HIDDEN =
  /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

/** Text of a guest or a client with what would not be seen, or would turn other text around, made visible. */
export const visible = (text: string): string =>
  text.replace(HIDDEN, char => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`);

/** The same, on one line. */
export const line = (text: string): string => visible(text).replaceAll('\n', '\\n');

/** At most so many characters; none of them is half of one. */
export const shorten = (text: string, max: number): string =>
  text.length > max ? `${text.slice(0, max).replace(/[\ud800-\udbff]$/, '')}…` : text;
