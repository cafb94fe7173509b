// Credentials of each door, and the forms in which a client may present them.
import { ApiClient } from '../../tools/api-client.js';

export const DOORS = ['node', 'app', 'user'] as const;
export type Door = (typeof DOORS)[number];
export type Headers = readonly (readonly [string, string])[];

/** The guarded service: the name in the configurations. */
const SERVICE_NAME = 'recipes';
const HOUSEHOLD_ID = '5b1c7a9e-0d35-4c8e-9a57-6f0b1f4f2a10';
const PERSON = { email: 'alice@example.org', password: 'correct horse battery' };

export interface Credential {
  readonly good: Headers;
  readonly bad: Headers;
  /** What the upstream receives, in the order of the names. */
  readonly identity: Readonly<Record<string, string>>;
  /** Members of a 401's body and challenge. */
  readonly code: string;
  readonly challenge: string;
}

export type Credentials = Readonly<Record<Door, Credential>>;

const decodeClaims = (token: string): { readonly sub: string; readonly sid: string } =>
  JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString()) as { sub: string; sid: string };

export async function makeCredentials(url: string, adminKey: string): Promise<Credentials> {
  const client = new ApiClient(url, adminKey);
  const node = await client.registerNode({ household_id: HOUSEHOLD_ID, room: 'hall', name: 'lamp' });
  const app = await client.mintAppCredential({ caller: 'ocr', target: SERVICE_NAME });
  const foreign = await client.mintAppCredential({ caller: 'ocr', target: 'speech' });
  await client.register(PERSON);
  const [{ access_token }, ended] = [await client.logIn(PERSON), await client.logIn(PERSON)];
  await logOut(url, ended.refresh_token);
  const { sub, sid } = decodeClaims(access_token);
  return {
    node: {
      good: [['X-API-Key', `${node.node_id}:${node.api_key}`]],
      bad: [['X-API-Key', `${node.node_id}:wrong`]],
      identity: { 'x-auth-door': 'node', 'x-auth-household-id': HOUSEHOLD_ID, 'x-auth-node-id': node.node_id },
      code: 'invalid_node_credentials',
      challenge: 'NodeKey ',
    },
    app: {
      good: toAppHeaders(app),
      // A live key for another service, whose name the client claims.
      bad: [...toAppHeaders(foreign), ['X-Platform-Target', 'speech']],
      identity: { 'x-auth-app-id': app.app_id, 'x-auth-caller': 'ocr', 'x-auth-door': 'app' },
      code: 'invalid_app_credentials',
      challenge: 'PlatformApp ',
    },
    user: {
      good: [['Authorization', `Bearer ${access_token}`]],
      // Of a session that has ended: the signature alone does not tell.
      bad: [['Authorization', `Bearer ${ended.access_token}`]],
      identity: { 'x-auth-door': 'user', 'x-auth-session-id': sid, 'x-auth-user-id': sub },
      code: 'invalid_access_token',
      challenge: 'Bearer ',
    },
  };
}

async function logOut(url: string, refresh_token: string): Promise<void> {
  const headers = { 'Content-Type': 'application/json' };
  const { status } = await fetch(`${url}/api/v0/auth/logout`, {
    method: 'POST',
    headers,
    body: JSON.stringify({ refresh_token }),
  });
  if (status !== 204) throw new Error(`The logout answered ${status}`);
}

function toAppHeaders({ app_id, app_key }: { readonly app_id: string; readonly app_key: string }): Headers {
  return [
    ['X-Platform-App-Id', app_id],
    ['X-Platform-App-Key', app_key],
  ];
}

/** Every identity header, in all spellings that some framework takes for it. */
export function forgeIdentity(): Headers {
  const names = ['Door', 'Node-Id', 'Household-Id', 'App-Id', 'Caller', 'User-Id', 'Session-Id', 'Other'];
  return names.flatMap((end): Headers => {
    const name = `X-Auth-${end}`;
    // nginx and others cannot name a header that no one sends: only known ones are removed.
    const known = [name, name.toLowerCase(), name.toUpperCase(), name];
    const confusable = [name.replaceAll('-', '_'), name.replace('-', '_'), `X-Auth_${end}`, `x_auth-${end}`];
    return [...(end === 'Other' ? [] : known), ...confusable].map((spelling) => [spelling, 'forged']);
  });
}

/** Lines of a header that is written unusually. `[name, value]` is a good credential. */
export function writeUnusually([name, value]: readonly [string, string]): Readonly<Record<string, readonly string[]>> {
  return {
    'no space': [`${name}:${value}`],
    'spaces and tabs around it': [`${name}: \t ${value} \t `],
    'small letters': [`${name.toLowerCase()}: ${value}`],
    'capital letters': [`${name.toUpperCase()}: ${value}`],
    underscores: [`${name.replaceAll('-', '_')}: ${value}`],
    'a space before the colon': [`${name} : ${value}`],
    'a folded line': [`${name}: ${value}`, ' x'],
    'a folded empty line': [`${name}:`, ` ${value}`],
    'joined with a comma': [`${name}: ${value}, ${value}`],
    'a comma at the end': [`${name}: ${value},`],
    'an empty value': [`${name}:`],
    'an empty second one': [`${name}: ${value}`, `${name}:`],
    'an empty first one': [`${name}:`, `${name}: ${value}`],
    doubled: [`${name}: ${value}`, `${name}: ${value}`],
    'doubled in another case': [`${name}: ${value}`, `${name.toUpperCase()}: ${value}`],
    'another one first': [`${name}: x`, `${name}: ${value}`],
    'a null byte': [`${name}: ${value}\0`],
    'a control character': [`${name}: \x01${value}`],
    'a delete character': [`${name}: ${value}\x7f`],
    'a carriage return': [`${name}: ${value}\rX-Other: y`],
    'bytes that are not ASCII': [`${name}: ${value}\xe9\xff`],
    'quotation marks': [`${name}: "${value}"`],
    '7,000 characters': [`${name}: ${'x'.repeat(7_000)}`],
    '12,000 characters': [`${name}: ${'x'.repeat(12_000)}`],
    '40,000 characters': [`${name}: ${'x'.repeat(40_000)}`],
  };
}
