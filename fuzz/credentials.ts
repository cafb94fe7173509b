import fc from 'fast-check';
import { SECRET } from './canaries.js';
import type { Operation, Requirement } from './document.js';
import { hostileText } from './values.js';
import type { Header } from './send.js';

/** A change of one character, which makes the credential invalid. */
interface Spoil {
  readonly change: 'flip' | 'cut' | 'append';
  readonly at: number;
}

export interface GeneratedCredentials {
  /** `mixed`: credentials of other doors, or of all of them, which the operation may accept. */
  readonly verdict: 'none' | 'good' | 'bad' | 'mixed';
  readonly headers: readonly Header[];
  readonly spoil?: Spoil;
}

/** A live credential for each security scheme of the document, by its symbols. */
const LIVE: Readonly<Partial<Record<string, Header>>> = {
  user: ['Authorization', 'Bearer {{access_token}}'],
  app_id: ['X-Platform-App-Id', '{{app_id}}'],
  app_key: ['X-Platform-App-Key', '{{app_key}}'],
  node: ['X-API-Key', '{{node_id}}:{{api_key}}'],
  admin: ['X-Admin-Key', '{{admin_key}}'],
};
const ALL = Object.values(LIVE).filter((header) => header !== undefined);
const NONE: GeneratedCredentials = { verdict: 'none', headers: [] };
const MAX_HEADER_LENGTH = 10_000;

/** Replaces line breaks and characters beyond Latin-1, which the client would refuse to send. */
export function toHeaderValue(text: string): string {
  return text.replace(/[^\t\x20-\x7e\x80-\xff]/g, '~').slice(0, MAX_HEADER_LENGTH);
}

/** Live credentials of one of the doors of the operation. */
export function goodCredentials({ security }: Pick<Operation, 'security'>): fc.Arbitrary<GeneratedCredentials> {
  const alternatives = security.filter(isDoor);
  if (alternatives.length === 0) return fc.constant(NONE);
  return fc.constantFrom(...alternatives).map((schemes) => ({ verdict: 'good', headers: live(schemes) }));
}

/** No credential, an invented one, one with a changed character, one of another door, one twice, or one of every door. */
export function badCredentials({ security }: Pick<Operation, 'security'>): fc.Arbitrary<GeneratedCredentials> {
  const fitting = security.filter(isDoor);
  const schemes = fc.constantFrom<Requirement[]>(...(fitting.length > 0 ? fitting : [{ user: [] }, { node: [] }]));
  const names = ALL.map(([name]) => name);
  const junk = fc.tuple(fc.constantFrom(...names), hostileText(SECRET).map(toHeaderValue));
  const bad = (headers: readonly Header[]): GeneratedCredentials => ({ verdict: 'bad', headers });
  const mixed = (headers: readonly Header[]): GeneratedCredentials => ({ verdict: 'mixed', headers });
  return fc.oneof(
    fc.constant(NONE),
    fc.array(junk, { minLength: 1, maxLength: 3 }).map(bad),
    fc
      .tuple(schemes, fc.constantFrom<Spoil['change'][]>('flip', 'cut', 'append'), fc.nat(500))
      .map(([chosen, change, at]): GeneratedCredentials => ({ ...bad(live(chosen)), spoil: { change, at } })),
    schemes.map((chosen) => bad([...live(chosen), ...live(chosen)])),
    schemes.map((chosen) => bad([...live(chosen), ...live(chosen).slice(0, 1).map(toUpperCase)])),
    fc.constant(mixed(ALL)),
    fc.constantFrom(...ALL).map((header) => mixed([header])),
  );
}

export function spoil(headers: readonly Header[], { change, at }: Spoil): Header[] {
  const [first, ...others] = headers;
  if (!first) return others;
  const [name, value] = first;
  const index = at % value.length;
  const changed = {
    flip: value.slice(0, index) + (value[index] === 'x' ? 'y' : 'x') + value.slice(index + 1),
    cut: value.slice(0, -1),
    append: `${value}x`,
  };
  return [[name, changed[change]], ...others];
}

/**
 * An empty requirement needs no credential. HTTP Basic is left out, because a changed text in Base64 may stand for the
 * same key.
 */
function isDoor(schemes: Requirement): boolean {
  return Object.keys(schemes).length > 0 && !('app_basic' in schemes);
}

/** @throws when the document has a door that this fuzzer does not know */
function live(schemes: Requirement): Header[] {
  return Object.keys(schemes).map((scheme) => {
    const header = LIVE[scheme];
    if (!header) throw new Error(`There is no credential for the security scheme ${scheme}`);
    return header;
  });
}

function toUpperCase([name, value]: Header): Header {
  return [name.toUpperCase(), value.toUpperCase()];
}
