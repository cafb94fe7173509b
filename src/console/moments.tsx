/** How pages show moments: in the reader's time zone, and how long ago they were. */
import { createContext, type VNode } from 'preact';
import { useContext } from 'preact/hooks';

export const UTC = 'UTC';
export const TIME_ZONE_COOKIE = 'console-zone';

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
export function formatMoment(at: string, timeZone: string): string {
  if (timeZone === UTC) return `${at.slice(0, 19).replace('T', ' ')} UTC`;
  const local = new Intl.DateTimeFormat('sv-SE', { timeZone, dateStyle: 'short', timeStyle: 'medium' });
  const zone = new Intl.DateTimeFormat('en', { timeZone, timeZoneName: 'short' })
    .formatToParts(Date.parse(at))
    .find(({ type }) => type === 'timeZoneName')?.value;
  return `${local.format(Date.parse(at))} ${zone ?? timeZone}`;
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

/** How long ago a moment was, or how far ahead it is. The exact one is in the `title` and in `datetime`. */
export function Ago({ at }: { at: string | null | undefined }): VNode {
  const zone = useContext(TimeZone);
  if (at == null) return <>never</>;
  const seconds = Math.round((Date.parse(at) - Date.now()) / 1_000);
  const [unit, size] = UNITS.find(([, length]) => Math.abs(seconds) >= 2 * length) ?? (['second', 1] as const);
  return (
    <time dateTime={at} title={formatMoment(at, zone)}>
      {RELATIVE.format(Math.trunc(seconds / size), unit)}
    </time>
  );
}
