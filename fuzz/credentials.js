import fc from 'fast-check';
import { SECRET } from './canaries.js';
import { hostileText } from './values.js';

/** A live credential for each security scheme of the document, by its symbols. */
const LIVE = {
  user: ['Authorization', 'Bearer {{access_token}}'],
  app_id: ['X-Platform-App-Id', '{{app_id}}'],
  app_key: ['X-Platform-App-Key', '{{app_key}}'],
  node: ['X-API-Key', '{{node_id}}:{{api_key}}'],
  admin: ['X-Admin-Key', '{{admin_key}}'],
};
const HEADERS = Object.values(LIVE).map(([name]) => name);
const NONE = { verdict: 'none', headers: [], spoil: undefined };

const live = (schemes) => Object.keys(schemes).map((scheme) => LIVE[scheme]);

/** Replaces line breaks and characters beyond Latin-1, which the client would refuse to send. */
export const asHeaderValue = (text) => text.replace(/[^\t\x20-\x7e\x80-\xff]/g, '~').slice(0, 10_000);

/** Live credentials of one of the doors that lead to the operation. */
export function goodCredentials({ security }) {
  const alternatives = security.filter((schemes) => Object.keys(schemes).length > 0);
  if (alternatives.length === 0) return fc.constant(NONE);
  return fc.constantFrom(...alternatives).map((schemes) => ({ verdict: 'good', headers: live(schemes) }));
}

/** No credential, an invented one, one with a changed character, of another door, twice, or of every door at once. */
export function badCredentials({ security }) {
  const fitting = security.filter((schemes) => Object.keys(schemes).length > 0);
  const schemes = fitting.length > 0 ? fc.constantFrom(...fitting) : fc.constantFrom({ user: [] }, { node: [] });
  const junk = fc.tuple(fc.constantFrom(...HEADERS), hostileText(SECRET).map(asHeaderValue));
  return fc.oneof(
    fc.constant(NONE),
    fc.array(junk, { minLength: 1, maxLength: 3 }).map((headers) => ({ verdict: 'bad', headers })),
    fc
      .tuple(schemes, fc.constantFrom('flip', 'cut', 'append'), fc.nat(500))
      .map(([chosen, change, at]) => ({ verdict: 'bad', headers: live(chosen), spoil: { change, at } })),
    schemes.map((chosen) => ({ verdict: 'bad', headers: [...live(chosen), ...live(chosen)] })),
    schemes.map((chosen) => ({
      verdict: 'bad',
      headers: [...live(chosen), live(chosen)[0].map((text) => text.toUpperCase())],
    })),
    fc.constant({ verdict: 'mixed', headers: Object.values(LIVE) }),
    fc.constantFrom(...Object.values(LIVE)).map((header) => ({ verdict: 'mixed', headers: [header] })),
  );
}

/** Changes one character, so that the credential is not valid any more. */
export function spoiled(headers, { change, at }) {
  const [[name, value], ...others] = headers;
  const i = at % value.length;
  const text = {
    flip: value.slice(0, i) + (value[i] === 'x' ? 'y' : 'x') + value.slice(i + 1),
    cut: value.slice(0, -1),
    append: `${value}x`,
  };
  return [[name, text[change]], ...others];
}
