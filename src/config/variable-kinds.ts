import { statSync } from 'node:fs';
import { isIP } from 'node:net';
import { availableParallelism } from 'node:os';
import * as z from 'zod';
import { isServiceName, SERVICE_NAME_DETAIL } from '../common/names.js';
import { MAX_LEASE_MS, type Limit } from './limits.js';

// What a variable is, and the types that variables have. Their messages say what is accepted and never show the value.
// `bounds` is what the documents say; numbers are joined by a dash.

/** Everything about one variable of the configuration. Its name is the key under which a section lists it. */
export interface Variable {
  /** Type, bounds and default. */
  readonly type: z.ZodType;
  /** What it does, in Markdown, for .env.example and docs/configuration.md; links are relative to docs/. */
  readonly text: string;
  /** What the documents show as the default when the type has none. Without it: none. */
  readonly defaultText?: string;
  /** What .env.example shows as the value when the type has no default. */
  readonly example?: string | number;
  /** The value may come from a file, which the variable with the suffix `_FILE` names. */
  readonly mayBeFile?: true;
}

/** Variables that belong together, in the order in which the documents list them. */
export interface Section {
  readonly title: string;
  /** Before the variables. */
  readonly introduction?: string;
  readonly variables: Readonly<Record<string, Variable>>;
  /** After the variables. */
  readonly note?: string;
}

/** The variables of several sections, as one object. */
export type VariablesOf<Sections extends readonly Section[]> = Sections extends readonly [
  infer First extends Section,
  ...infer Rest extends readonly Section[],
]
  ? First['variables'] & VariablesOf<Rest>
  : unknown;

const PLACEHOLDER = new RegExp(
  [
    'change[-_ ]?(me|this|it)|replace[-_ ]?(me|this|it|with)|(insert|your)[-_ ].*(key|secret)|placeholder',
    '(^|[-_ ])(todo|fixme)([-_ ]|$)|^<.*>$',
    // Digits only, or a repeated unit.
    '^\\d+$|^(?<unit>.{1,8}?)\\k<unit>+$',
  ].join('|'),
  'i',
);
const MIN_DISTINCT_CHARACTERS = 6;
const MAX_WORKERS = 128;

export const secret = z
  .string({ error: 'is required' })
  .refine((value) => Buffer.byteLength(value) >= 32, 'must be at least 32 bytes long')
  .refine(
    (value) => !PLACEHOLDER.test(value) && new Set(value).size >= MIN_DISTINCT_CHARACTERS,
    'looks like a placeholder; generate one with: openssl rand -base64 48',
  )
  .meta({ bounds: 'at least 32 bytes, no placeholder' });

/** A secret that callers send in a header. */
export const headerSecret = secret.regex(/^[\x21-\x7e]+$/, 'must be printable ASCII without blanks, to fit a header');

export const httpUrl = z
  .string()
  .refine((value) => /^https?:$/.test(URL.canParse(value) ? new URL(value).protocol : ''), 'must be an http(s) URL')
  .meta({ bounds: 'http(s) URL' });

export const word = z
  .string()
  .regex(/^[\x21-\x7e]{1,200}$/, 'must be 1 to 200 printable characters without spaces')
  .meta({ bounds: '1–200 printable characters without spaces' });

export const serviceName = z
  .string()
  .refine(isServiceName, SERVICE_NAME_DETAIL)
  .meta({ bounds: '1–100 letters, digits, dots, dashes or underscores' });

/** One of several words. */
export function oneOf<const Words extends readonly [string, ...string[]]>(...words: Words) {
  return z
    .enum(words, { error: `must be ${words.slice(0, -1).join(', ')} or ${words.at(-1)}` })
    .meta({ bounds: words.map((word) => `\`${word}\``).join(', ') });
}

export const flag = oneOf('true', 'false')
  .default('false')
  .transform((value) => value === 'true');

/** A whole number written in plain digits, within bounds that keep it meaningful. */
export function wholeNumber(from: number, to: number) {
  const message = `must be a whole number from ${from} to ${to}`;
  return z
    .string()
    .regex(/^\d{1,9}$/, message)
    .transform(Number)
    .refine((value) => value >= from && value <= to, message)
    .meta({ bounds: `${from}–${to}` });
}

const MIN_LEASE_MS = 100;
const LEASE_MESSAGE = `must be 0 or a whole number from ${MIN_LEASE_MS} to ${MAX_LEASE_MS}`;

/** With a shorter lease a replica would mostly poll. */
export const leaseMs = z
  .string()
  .regex(/^\d{1,4}$/, LEASE_MESSAGE)
  .transform(Number)
  .refine((value) => value === 0 || (value >= MIN_LEASE_MS && value <= MAX_LEASE_MS), LEASE_MESSAGE)
  .meta({ bounds: `0, or ${MIN_LEASE_MS}–${MAX_LEASE_MS}` });

/** `auto` is one process for each core. */
export const workers = z
  .string()
  .regex(/^(auto|[1-9]\d{0,2})$/, `must be auto or a whole number from 1 to ${MAX_WORKERS}`)
  .transform((value) => (value === 'auto' ? Math.min(availableParallelism(), MAX_WORKERS) : Number(value)))
  .refine((value) => value <= MAX_WORKERS, `must be auto or a whole number from 1 to ${MAX_WORKERS}`)
  .meta({ bounds: `1–${MAX_WORKERS}, or \`auto\`` });

export const passwordBlocklist = z
  .string()
  .refine(
    (value) => ['common', 'off'].includes(value) || statSync(value, { throwIfNoEntry: false })?.isFile() === true,
    'must be common, off or the path of a file',
  )
  .meta({ bounds: '`common`, `off`, or the path of a file' });

const PROXY_RANGES = new Set(['loopback', 'linklocal', 'uniquelocal']);

function isProxyAddress(text: string): boolean {
  const [address = '', bits, ...rest] = text.trim().split('/');
  if (PROXY_RANGES.has(text.trim())) return true;
  const version = isIP(address);
  const isPrefix = bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (version === 4 ? 32 : 128));
  return version !== 0 && isPrefix && rest.length === 0;
}

/** `true` trusts the nearest proxy only; a digit trusts that many; a list names their addresses. */
export const trustProxy = z
  .string()
  .refine(
    (value) => /^(true|false|\d)$/.test(value) || value.split(',').every(isProxyAddress),
    'must be false, true (the nearest proxy), a number of proxies, or their addresses',
  )
  .meta({ bounds: '`false`, `true`, 0–9, or addresses' })
  .default('false')
  .transform((value): boolean | number | string => {
    if (value === 'false') return false;
    if (value === 'true') return 1;
    return /^\d$/.test(value) ? Number(value) : value;
  });

function isOrigin(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { protocol, origin } = new URL(text);
  return /^https?:$/.test(protocol) && origin === text;
}

/** Origins as a browser sends them (RFC 6454 §6.2). Never `*` or `null`. */
export const origins = z
  .string()
  .transform((value) => value.split(',').map((part) => part.trim()))
  .refine(
    (list) => list.every(isOrigin),
    'must be origins separated by commas, each exactly as a browser sends it: https://admin.example.org',
  )
  .meta({ bounds: 'origins, separated by commas' });

/** The domain that passkeys belong to (WebAuthn §5.1.2). No address: browsers refuse those. */
export const relyingPartyId = z
  .string()
  .refine(
    (value) => /^(?=.{1,253}$)([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z][a-z0-9-]{0,62}$/.test(value),
    'must be a domain in lower case, without scheme and port: example.org',
  )
  .meta({ bounds: 'domain in lower case' });

/** `points/seconds`: at most that many points in a window of that length. */
export function limit(initial: string) {
  return z
    .string()
    .refine(
      (value) => /^[1-9]\d{0,6}\/[1-9]\d{0,4}$/.test(value) && Number(value.split('/')[1]) <= 86_400,
      'must be points/seconds: 1 to 9999999 points in 1 to 86400 seconds',
    )
    .meta({ bounds: 'points/seconds' })
    .default(initial)
    .transform(parseLimit);
}

function parseLimit(text: string): Limit {
  const [points = 0, seconds = 0] = text.split('/').map(Number);
  return { points, seconds };
}
