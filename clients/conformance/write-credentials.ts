// Writes credentials.json: `npm run build && node dist/clients/conformance/write-credentials.js`. Only when a token has to be added:
// each run makes a new ES256 key.
import { createHmac, sign } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { generateKeyPair } from '../../src/foundation/crypto/key-pair.js';

type Fields = Readonly<Record<string, unknown>>;

interface Credential {
  readonly door: 'app' | 'node' | 'user';
  readonly headers: readonly (readonly [string, string])[];
  readonly secrets: readonly string[];
}

const TARGET = fileURLToPath(new URL('../../../clients/conformance/credentials.json', import.meta.url));
const START_SECONDS = 1_767_225_600;
const SECRET_KEY = 'conformance-suite-secret-key-of-48-characters-xx';
const id = (suffix: string): string => `01985f4e-7c3a-7b52-9d1e-${suffix.padStart(12, '0')}`;
const names = {
  secret_key: SECRET_KEY,
  own_app_id: id('c01'),
  own_app_key: 'pa_app_OWNownOWNownOWNownOWNownOWNownOWNownOWNowno1',
  next_own_app_key: 'pa_app_NEXTnextNEXTnextNEXTnextNEXTnextNEXTnextNEX1',
  app_id: id('a01'),
  app_key: 'pa_app_AAAaaaAAAaaaAAAaaaAAAaaaAAAaaaAAAaaaAAAaaa1',
  other_app_key: 'pa_app_BBBbbbBBBbbbBBBbbbBBBbbbBBBbbbBBBbbbBBBbbb1',
  other_app_id: id('a02'),
  node_id: id('b01'),
  node_key: 'pa_node_NNNnnnNNNnnnNNNnnnNNNnnnNNNnnnNNNnnnNNNnnn1',
  household_id: id('d01'),
  other_household_id: id('d02'),
  alice_id: id('e01'),
  alice_session: id('f01'),
  alice_other_session: id('f02'),
  bob_id: id('e02'),
  bob_session: id('f03'),
  pair_id: id('a11'),
  earlier_pair_id: id('a12'),
  ocr_pair_id: id('a13'),
};

const pair = generateKeyPair();
const stranger = generateKeyPair();
const { kid, jwk } = pair;
const { d } = pair.privateKey.export({ format: 'jwk' });
const encode = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url');

function claims(user: string, session: string, changes: Fields = {}): Fields {
  const standard = { iss: 'platform-auth', sub: user, sid: session, jti: id('9'), iat: START_SECONDS - 60 };
  return { ...standard, exp: START_SECONDS + 840, email: 'alice@example.org', ...changes };
}

function buildToken(header: Fields, payload: Fields, signer: (input: string) => string): string {
  const input = `${encode({ typ: 'JWT', ...header })}.${encode(payload)}`;
  return `${input}.${signer(input)}`;
}

const signHs256 =
  (secret = SECRET_KEY) =>
  (input: string): string =>
    createHmac('sha256', secret).update(input).digest('base64url');
const hs256 = (payload: Fields, secret?: string): string => buildToken({ alg: 'HS256' }, payload, signHs256(secret));
function hs256Of(payload: string): string {
  const input = `${encode({ alg: 'HS256' })}.${Buffer.from(payload).toString('base64url')}`;
  return `${input}.${signHs256()(input)}`;
}
const es256 = (payload: Fields, header: Fields = {}, { privateKey } = pair): string =>
  buildToken({ alg: 'ES256', kid, ...header }, payload, (input) =>
    sign('sha256', Buffer.from(input), { key: privateKey, dsaEncoding: 'ieee-p1363' }).toString('base64url'),
  );

const alice = claims(names.alice_id, names.alice_session);

/** `meals` calls on behalf of the user, whom `web` passed on. */
const act = { sub: 'meals', client_id: names.pair_id, act: { sub: 'web', client_id: names.earlier_pair_id } };
const delegated = {
  ...alice,
  iss: 'platform-auth/delegated',
  aud: 'recipes',
  email: undefined,
  client_id: names.pair_id,
  act,
  scope: 'recipes:read recipes:write',
  exp: START_SECONDS + 240,
};
const exchanged = (payload: Fields, ...rest: [Fields?, typeof pair?]): string =>
  es256(payload, { typ: 'at+jwt', ...rest[0] }, rest[1]);
/** The signature of one token behind the claims of another one. */
function replaceClaims(token: string, payload: Fields): string {
  const [header, , signature] = token.split('.');
  return [header, encode(payload), signature].join('.');
}
const fiveLinks = [2, 3, 4, 5].reduce<Fields>(
  (earlier, n) => ({ sub: `service-${n}`, client_id: id(`a2${n}`), act: earlier }),
  { sub: 'web', client_id: names.earlier_pair_id },
);
const ocrToken = exchanged({
  ...delegated,
  aud: 'ocr',
  client_id: names.ocr_pair_id,
  act: { sub: 'recipes', client_id: names.ocr_pair_id },
});
const bearer = (token: string, [before, behind] = ['', '']): Credential => ({
  door: 'user',
  headers: [['Authorization', `Bearer ${before}${token}${behind}`]],
  secrets: [token],
});
const app = (appId: string, key: string): Credential => ({
  door: 'app',
  headers: [
    ['X-Platform-App-Id', appId],
    ['X-Platform-App-Key', key],
  ],
  secrets: [key],
});
const node = (header: string): Credential => ({
  door: 'node',
  headers: [['X-API-Key', header]],
  secrets: [names.node_key],
});

const credentials: Readonly<Record<string, Credential>> = {
  app: app(names.app_id, names.app_key),
  'app, id in capitals': app(names.app_id.toUpperCase(), names.app_key),
  'app, other key': app(names.app_id, names.other_app_key),
  'other app': app(names.other_app_id, names.other_app_key),
  node: node(`${names.node_id}:${names.node_key}`),
  'node, id in capitals': node(`${names.node_id.toUpperCase()}:${names.node_key}`),
  alice: bearer(hs256(alice)),
  'alice, between blanks': bearer(hs256(alice), [' \t', '\t ']),
  'alice, after a no-break space': bearer(hs256(alice), ['\u00a0', '']),
  'alice, before a no-break space': bearer(hs256(alice), ['', '\u00a0']),
  'alice, other session': bearer(hs256(claims(names.alice_id, names.alice_other_session))),
  bob: bearer(hs256(claims(names.bob_id, names.bob_session, { email: 'bob@example.org' }))),
  'alice, signed with another secret': bearer(hs256(alice, 'another-secret-key-of-more-than-32-characters')),
  'alice, not signed': bearer(buildToken({ alg: 'none' }, alice, () => '')),
  'alice, expired two minutes ago': bearer(hs256({ ...alice, exp: START_SECONDS - 120 })),
  'alice, without an expiry': bearer(hs256({ ...alice, exp: undefined })),
  'alice, another issuer': bearer(hs256({ ...alice, iss: 'another' })),
  'alice, an audience': bearer(hs256({ ...alice, aud: 'another' })),
  'alice, audiences': bearer(hs256({ ...alice, aud: ['ocr', 'recipes'] })),
  'alice, not valid yet': bearer(hs256({ ...alice, nbf: START_SECONDS + 3_600 })),
  'alice, issued at a text': bearer(hs256({ ...alice, iat: 'yesterday' })),
  'alice, an expiry that is not JSON': bearer(hs256Of(JSON.stringify(alice).replace(/"exp":\d+/, '"exp":Infinity'))),
  'alice, a kid that is not a text': bearer(buildToken({ alg: 'HS256', kid: 7 }, alice, signHs256())),
  'alice, an extension': bearer(buildToken({ alg: 'HS256', crit: ['exp'], exp: START_SECONDS }, alice, signHs256())),
  'alice, padded': bearer(`${hs256(alice)}=`),
  'alice, in four parts': bearer(`${hs256(alice)}.e30`),
  'alice, ES256': bearer(es256(alice)),
  'alice, ES256 of another key': bearer(es256(alice, {}, stranger)),
  'alice, ES256 without a kid': bearer(es256(alice, { kid: undefined })),
  'alice, ES256 of another key without a kid': bearer(es256(alice, { kid: undefined }, stranger)),
  'alice, ES256 of an unknown kid': bearer(es256(alice, { kid: 'unknown' }, stranger)),
  'alice, another token': bearer(hs256({ ...alice, jti: id('8') })),
  'alice, delegated': bearer(exchanged(delegated)),
  'alice, delegated, expired two minutes ago': bearer(exchanged({ ...delegated, exp: START_SECONDS - 120 })),
  'alice, delegated, for another target': bearer(exchanged({ ...delegated, aud: 'ocr' })),
  'alice, delegated, for a list': bearer(exchanged({ ...delegated, aud: ['recipes'] })),
  'alice, delegated, by the issuer itself': bearer(exchanged({ ...delegated, iss: 'platform-auth' })),
  'alice, delegated, of another type': bearer(es256(delegated)),
  'alice, delegated, without a chain': bearer(exchanged({ ...delegated, act: undefined })),
  'alice, delegated, a chain of five': bearer(exchanged({ ...delegated, act: fiveLinks })),
  'alice, delegated, chain in another order': bearer(
    replaceClaims(exchanged(delegated), {
      ...delegated,
      act: { ...act.act, act: { sub: act.sub, client_id: act.client_id } },
    }),
  ),
  'alice, delegated, with HS256': bearer(buildToken({ alg: 'HS256', typ: 'at+jwt' }, delegated, signHs256())),
  'alice, delegated, signed with another key': bearer(exchanged(delegated, {}, stranger)),
};

const published = { ...jwk, kid, use: 'sig', alg: 'ES256' };
const jwks = { keys: [published] };
/** Published by mistake, with the key that signs. */
const private_jwks = { keys: [{ ...published, d }] };
const text = JSON.stringify({ names: { ...names, ocr_token: ocrToken }, credentials, jwks, private_jwks }, null, 2);
writeFileSync(TARGET, `${text}\n`);
