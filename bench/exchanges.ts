// What a token for users costs (POST /internal/token), beside validate-user of the same service.
import { ApiClient } from '../tools/api-client.js';
import { withClient } from '../tools/postgres.js';
import { createOwnRequests, type HttpRequest } from './loads.js';
import { NAMES } from './names.js';
import { populate, type Maker, type Setting } from './population.js';
import { toAppRequest } from './requests.js';
import type { Service, Testbed } from './testbed.js';
import { memoize } from './verifiers.js';

const DATABASE = 'exchanges';
const CALLER = 'recipes';
const TARGET = 'ocr';
const TOKEN_TYPE = 'urn:ietf:params:oauth:token-type:access_token';

interface Exchanges {
  readonly service: Service;
  /** The app credential of the service that asks. */
  readonly own: Readonly<Record<string, string>>;
  readonly tokens: readonly string[];
}

export function listExchanges({ testbed }: Setting): [string, Maker][] {
  const start = memoize(() => startService(testbed));
  const routes =
    (toRequest: (token: string, own: Exchanges['own']) => HttpRequest): Maker =>
    async (name) => {
      const { service, own, tokens } = await start();
      return createOwnRequests(
        name,
        service,
        tokens.map((token) => [toRequest(token, own)]),
      );
    };
  return [
    [NAMES.validateUser, routes(toValidation)],
    [NAMES.exchange, routes(toExchange)],
    [NAMES.signature, async (name) => ({ name, load: await testbed.startWork('signature', {}) })],
  ];
}

/** A service of its own, because only one that signs with ES256 exchanges tokens. */
async function startService(testbed: Testbed): Promise<Exchanges> {
  await withClient(testbed.database.url(), (client) => client.query(`CREATE DATABASE ${DATABASE}`));
  const service = await testbed.startService({ ACCESS_TOKEN_ALGORITHM: 'ES256', BCRYPT_COST: '4' }, DATABASE);
  const client = new ApiClient(service.url, testbed.secrets.ADMIN_API_KEY);
  const { bearers } = await populate(client);
  await client.issueAppCredential({ caller: CALLER, target: TARGET, scopes: ['documents:read'], for_users: true });
  const { app_id, app_key } = await client.issueAppCredential({ caller: CALLER, target: 'auth' });
  return { service, own: toAppRequest(app_id, app_key).headers ?? {}, tokens: bearers.map(({ token }) => token) };
}

function toValidation(token: string, own: Exchanges['own']): HttpRequest {
  const headers = { ...own, Authorization: `Bearer ${token}` };
  return { method: 'POST', path: '/internal/validate-user', headers };
}

function toExchange(token: string, own: Exchanges['own']): HttpRequest {
  const form = new URLSearchParams({
    grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
    subject_token: token,
    subject_token_type: TOKEN_TYPE,
    audience: TARGET,
  });
  const headers = { ...own, 'Content-Type': 'application/x-www-form-urlencoded' };
  return { method: 'POST', path: '/internal/token', headers, body: form.toString() };
}
