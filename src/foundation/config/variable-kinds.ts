// The types of variables. A message says what is accepted and never shows the value; `bounds` is the range as the
// documents show it.

import { statSync } from 'node:fs';
import { isIP } from 'node:net';
import { availableParallelism } from 'node:os';
import * as z from 'zod';
import { isRestriction, SERVICE_NAME_FORMAT, MAX_RESTRICTIONS } from '../common/names.js';
import { MAX_LEASE_MS, type Limit } from './limits.js';

/** One variable of the configuration. The key under which a section lists it is its name. */
export interface Variable {
  readonly type: z.ZodType;
  /** Its description in Markdown, for .env.example and docs/configuration.md. Links are relative to docs/. */
  readonly text: string;
  /** The default as the documents show it, when the type has none. Undefined: no default. */
  readonly defaultText?: string;
  /** The value that .env.example shows when the type has no default. */
  readonly example?: string | number;
  /** Whether a variable with the suffix `_FILE` may name a file with the value. */
  readonly mayBeFile?: true;
}

/** Variables that belong together, in the order in which the documents list them. */
export interface Section {
  readonly title: string;
  readonly introduction?: string;
  readonly variables: Readonly<Record<string, Variable>>;
  readonly note?: string;
}

const PLACEHOLDER = new RegExp(
  [
    'change[-_ ]?(me|this|it)|replace[-_ ]?(me|this|it|with)|(insert|your)[-_ ].*(key|secret)|placeholder',
    '(^|[-_ ])(todo|fixme)([-_ ]|$)|^<.*>$',
    // Rejects digits only, and a repeated unit.
    '^\\d+$|^(?<unit>.{1,8}?)\\k<unit>+$',
  ].join('|'),
  'i',
);
const MIN_DISTINCT_CHARACTERS = 6;
/** Every secret of `platform-auth dev` contains this text. They are public, so production refuses them. */
export const DEV_MARK = 'platform-auth-dev-';
const MAX_WORKERS = 128;

export const secret = z
  .string({ error: 'is required' })
  .refine((value) => Buffer.byteLength(value) >= 32, 'must be at least 32 bytes long')
  .refine(
    (value) => !PLACEHOLDER.test(value) && new Set(value).size >= MIN_DISTINCT_CHARACTERS,
    'looks like a placeholder; generate one with: openssl rand -base64 48',
  )
  .meta({ bounds: 'at least 32 bytes, no placeholder' });

export const HEADER_VALUE = /^[\x21-\x7e]+$/;
export const headerSecret = secret.regex(HEADER_VALUE, 'must be printable ASCII without blanks, to fit a header');

/** A variable whose text is used unchanged. */
export function accepted(
  bounds: string,
  isAccepted: (text: string) => boolean,
  message = `must be ${bounds.replace('–', ' to ')}`,
) {
  return z.string().refine(isAccepted, message).meta({ bounds });
}

/**
 * A variable whose text is parsed. A refused value does not prevent the rules between other variables from being
 * checked.
 * @param form for JSON Schema: what every accepted text matches
 */
export function parsed<Output>(
  bounds: string,
  message: string,
  parse: (text: string) => Output | undefined,
  form: { readonly pattern?: string } = {},
) {
  return z
    .string()
    .transform((text, context) => {
      const value = parse(text);
      if (value === undefined) context.addIssue({ code: 'custom', message, continue: true });
      return value ?? (text as Output);
    })
    .meta({ bounds, ...form });
}

export function isHttpUrl(text: string): boolean {
  return URL.canParse(text) && /^https?:$/.test(new URL(text).protocol);
}

export const httpUrl = accepted('http(s) URL', isHttpUrl, 'must be an http(s) URL');

export const word = accepted('1–200 printable characters without spaces', (text) => /^[\x21-\x7e]{1,200}$/.test(text));

export const serviceName = accepted('1–100 letters, digits, dots, dashes or underscores', SERVICE_NAME_FORMAT.isName);

export const targets = parsed(
  'names of services, separated by commas',
  `must be 1 to ${MAX_RESTRICTIONS} different names of services, separated by commas`,
  (text) => {
    const names = text.split(',').map((name) => name.trim());
    return isRestriction(names, SERVICE_NAME_FORMAT.isName) ? names : undefined;
  },
);

export const words = parsed(
  'words, separated by commas',
  'must be 1 to 100 words of 3 to 50 characters, separated by commas',
  (text) => {
    const list = text.split(',').map((each) => each.trim());
    return list.length <= 100 && list.every((each) => /^.{3,50}$/u.test(each)) ? list : undefined;
  },
);

export function oneOf<const Words extends readonly [string, ...string[]]>(...words: Words) {
  return z
    .enum(words, { error: `must be ${words.slice(0, -1).join(', ')} or ${words.at(-1)}` })
    .meta({ bounds: words.map((word) => `\`${word}\``).join(', ') });
}

export const flag = oneOf('true', 'false')
  .default('false')
  .transform((value) => value === 'true');

const WHOLE_NUMBER = /^[0-9]{1,9}$/;

export function wholeNumber(from: number, to: number) {
  const parse = (text: string): number | undefined => {
    const value = Number(text);
    return WHOLE_NUMBER.test(text) && value >= from && value <= to ? value : undefined;
  };
  const form = { pattern: WHOLE_NUMBER.source };
  return parsed(`${from}–${to}`, `must be a whole number from ${from} to ${to}`, parse, form);
}

/** Before every moment, and after every moment. */
const ALWAYS = new Date(0);
const NEVER = new Date(8.64e15);

/** The moment from which a rule holds. */
export const ruleStart = parsed(
  '`false`, `true`, or a date such as `2027-01-31`',
  'must be false, true, or a date such as 2027-01-31, which begins at midnight UTC',
  (text) => {
    if (text === 'false') return NEVER;
    if (text === 'true') return ALWAYS;
    return z.iso.date().safeParse(text).success ? new Date(text) : undefined;
  },
).prefault('false');

const MIN_LEASE_MS = 100;

/** A replica with a shorter lease would do little but poll. */
export const leaseMs = parsed(
  `0, or ${MIN_LEASE_MS}–${MAX_LEASE_MS}`,
  `must be 0 or a whole number from ${MIN_LEASE_MS} to ${MAX_LEASE_MS}`,
  (text) => {
    const value = Number(text);
    const isInRange = value === 0 || (value >= MIN_LEASE_MS && value <= MAX_LEASE_MS);
    return /^\d{1,4}$/.test(text) && isInRange ? value : undefined;
  },
);

export const workers = parsed(
  `1–${MAX_WORKERS}, or \`auto\``,
  `must be auto or a whole number from 1 to ${MAX_WORKERS}`,
  (text) => {
    if (text === 'auto') return Math.min(availableParallelism(), MAX_WORKERS);
    return /^[1-9]\d{0,2}$/.test(text) && Number(text) <= MAX_WORKERS ? Number(text) : undefined;
  },
);

export const folder = accepted(
  'the path of a folder',
  (text) => statSync(text, { throwIfNoEntry: false })?.isDirectory() === true,
);

export const passwordBlocklist = accepted(
  '`common`, `off`, or the path of a file',
  (text) => ['common', 'off'].includes(text) || statSync(text, { throwIfNoEntry: false })?.isFile() === true,
  'must be common, off or the path of a file',
);

const PROXY_RANGES = new Set(['loopback', 'linklocal', 'uniquelocal']);

function isProxyAddress(text: string): boolean {
  const [address = '', bits, ...rest] = text.trim().split('/');
  if (PROXY_RANGES.has(text.trim())) return true;
  const version = isIP(address);
  const isPrefix = bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (version === 4 ? 32 : 128));
  return version !== 0 && isPrefix && rest.length === 0;
}

export const trustProxy = parsed(
  '`false`, `true`, 0–9, or addresses',
  'must be false, true (the nearest proxy), a number of proxies, or their addresses',
  (text): boolean | number | string | undefined => {
    if (text === 'false') return false;
    if (text === 'true') return 1;
    if (/^\d$/.test(text)) return Number(text);
    return text.split(',').every(isProxyAddress) ? text : undefined;
  },
).prefault('false');

/** Origins as a browser sends them (RFC 6454 §6.2), so neither `*` nor `null`. */
export const origins = z
  .string()
  .transform((value) => value.split(',').map((part) => part.trim()))
  .refine(
    (list) => list.every((text) => isHttpUrl(text) && new URL(text).origin === text),
    'must be origins separated by commas, each exactly as a browser sends it: https://admin.example.org',
  )
  .meta({ bounds: 'origins, separated by commas' });

/** The domain that passkeys belong to (WebAuthn §5.1.2). IP addresses are refused, as browsers do. */
export const relyingPartyId = accepted(
  'domain in lower case',
  (text) => /^(?=.{1,253}$)([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z][a-z0-9-]{0,62}$/.test(text),
  'must be a domain in lower case, without scheme and port: example.org',
);

export function limit(initial: string) {
  const message = 'must be points/seconds: 1 to 9999999 points in 1 to 86400 seconds';
  return parsed('points/seconds', message, (text): Limit | undefined => {
    const [points = 0, seconds = 0] = text.split('/').map(Number);
    return /^[1-9]\d{0,6}\/[1-9]\d{0,4}$/.test(text) && seconds <= 86_400 ? { points, seconds } : undefined;
  }).prefault(initial);
}
