/** How pages show moments: in the reader's time zone, and how long ago they were. */
import { createContext, type VNode } from 'preact';
import { useContext } from 'preact/hooks';

export const UTC = 'UTC';
export const TIME_ZONE_COOKIE = 'console-zone';
/** The field of a form with the time zone of its calendars, which the reader may change before sending the form. */
export const CALENDAR_ZONE = 'calendar_zone';

/** The time zone of the reader of a page. */
export const TimeZone = createContext(UTC);

export function isTimeZone(name: string): boolean {
  try {
    new Intl.DateTimeFormat('en', { timeZone: name });
    return name !== '';
  } catch {
    return false;
  }
}

/** @param cookies the header of a request */
export function readTimeZone(cookies = ''): string {
  const [, sent = ''] = new RegExp(`(?:^|; *)${TIME_ZONE_COOKIE}=([\\w%+-]{1,64})`).exec(cookies) ?? [];
  const name = sent.replaceAll(/%2F/gi, '/');
  return isTimeZone(name) ? name : UTC;
}

/** @returns the moment to the second, as `2026-11-26 21:46:12 GMT+1` */
function formatMoment(at: string, timeZone: string): string {
  if (timeZone === UTC) return `${at.slice(0, 19).replace('T', ' ')} UTC`;
  const local = new Intl.DateTimeFormat('sv-SE', { timeZone, dateStyle: 'short', timeStyle: 'medium' });
  const zone = new Intl.DateTimeFormat('en', { timeZone, timeZoneName: 'short' })
    .formatToParts(Date.parse(at))
    .find(({ type }) => type === 'timeZoneName')?.value;
  return `${local.format(Date.parse(at))} ${zone ?? timeZone}`;
}

/** How calendars of browsers write a moment. They leave out seconds that are zero. */
const LOCAL = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?$/;
/** A moment before or after now, which stays relative in the address of a list. */
const RELATIVE_MOMENT = /^([+-]\d{1,4})([hd])$/;
const HOUR_MS = 3_600_000;

export const PAST = { '-1h': 'an hour ago', '-24h': '24 hours ago', '-7d': '7 days ago', '-30d': '30 days ago' };
export const PAST_USES = { '-7d': '7 days ago', '-30d': '30 days ago', '-90d': '90 days ago' };
export const SOON = { '+24h': 'in 24 hours', '+7d': 'in 7 days', '+14d': 'in 14 days', '+30d': 'in 30 days' };
export const LATER = { '+24h': 'in 24 hours', '+30d': 'in 30 days', '+90d': 'in 90 days', '+365d': 'in 365 days' };

/** @returns a moment in ISO 8601 as a calendar shows it in a time zone; another text as it is */
export function toLocal(text: string, timeZone: string): string {
  const at = LOCAL.test(text) ? NaN : Date.parse(text);
  if (Number.isNaN(at)) return text;
  const format = new Intl.DateTimeFormat('sv-SE', { timeZone, dateStyle: 'short', timeStyle: 'medium' });
  // A calendar wants four digits of the year at least.
  const [year = '', ...others] = format.format(at).replace(' ', 'T').split('-');
  return [year.padStart(4, '0'), ...others].join('-');
}

/** @returns what a calendar sent, as ISO 8601 in UTC; another text as it is, which the API may refuse */
function fromLocal(text: string, timeZone: string): string {
  const asUtc = LOCAL.test(text) ? Date.parse(`${text}Z`) : NaN;
  if (Number.isNaN(asUtc)) return text;
  // Date.parse() wants a sign before a year of more digits, and six of them.
  const readOffset = (at: number): number =>
    Date.parse(`${toLocal(new Date(at).toISOString(), timeZone).replace(/^(\d{5})-/, '+0$1-')}Z`) - at;
  // The offset at the moment itself, which differs from the first guess around the change to summer time.
  return new Date(asUtc - readOffset(asUtc - readOffset(asUtc))).toISOString();
}

/** @returns the name of the list of words beside a calendar */
export function toWordName(name: string): string {
  return `${name}_word`;
}

type Values = Readonly<Record<string, string | undefined>>;

/** @returns the values, with moments in UTC or as the word that was chosen */
export function readMoments(names: readonly string[], values: Values, timeZone: string): Values {
  const read = names.map((name) => {
    const { [name]: typed = '', [toWordName(name)]: word } = values;
    return { [name]: word || fromLocal(typed.trim(), timeZone) || undefined, [toWordName(name)]: undefined };
  });
  return Object.assign({ ...values }, ...read) as Values;
}

/**
 * Whether a form sent the moment that its calendar showed. Compared as local texts, because the hour that a time change
 * repeats names two moments, and because calendars show no milliseconds.
 */
export function isShownMoment(name: string, values: Values, shown: string, timeZone: string): boolean {
  const { [name]: typed = '', [toWordName(name)]: word } = values;
  const toSeconds = (text: string): string => (/T\d\d:\d\d$/.test(text) ? `${text}:00` : text);
  return !word && toSeconds(typed.trim()) === toLocal(shown, timeZone);
}

/** @returns the values with the moments that relative ones name now */
export function resolveMoments(names: readonly string[], values: Values): Values {
  return { ...values, ...Object.fromEntries(names.map((name) => [name, values[name] && resolveMoment(values[name])])) };
}

/** @returns the moment that a relative one names now; another text as it is */
export function resolveMoment(text: string): string {
  const [, amount, unit] = RELATIVE_MOMENT.exec(text) ?? [];
  if (amount === undefined) return text;
  return new Date(Date.now() + Number(amount) * HOUR_MS * (unit === 'd' ? 24 : 1)).toISOString();
}

/** @param at a moment in ISO 8601; shown to the second */
export function Moment({ at }: { at: string | null | undefined }): VNode {
  const zone = useContext(TimeZone);
  return at == null ? <>never</> : <time dateTime={at}>{formatMoment(at, zone)}</time>;
}

const UNITS = [
  ['day', 86_400],
  ['hour', 3_600],
  ['minute', 60],
] as const;
const RELATIVE = new Intl.RelativeTimeFormat('en');

/** @returns the largest unit of which there are two or more, and its length in seconds */
function chooseUnit(seconds: number): readonly [unit: 'day' | 'hour' | 'minute' | 'second', size: number] {
  return UNITS.find(([, length]) => Math.abs(seconds) >= 2 * length) ?? ['second', 1];
}

/** @returns how long something takes or waits, as `5 minutes` */
export function formatDuration(seconds: number): string {
  const [unit, size] = chooseUnit(seconds);
  const format = new Intl.NumberFormat('en', { style: 'unit', unit, unitDisplay: 'long' });
  return format.format(Math.trunc(seconds / size));
}

/** How long ago a moment was, or how far ahead it is. The exact one is in the `title` and in `datetime`. */
export function Ago({ at }: { at: string | null | undefined }): VNode {
  const zone = useContext(TimeZone);
  if (at == null) return <>never</>;
  const seconds = Math.round((Date.parse(at) - Date.now()) / 1_000);
  const [unit, size] = chooseUnit(seconds);
  return (
    <time dateTime={at} title={formatMoment(at, zone)}>
      {RELATIVE.format(Math.trunc(seconds / size), unit)}
    </time>
  );
}
