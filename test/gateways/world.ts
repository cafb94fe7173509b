import { z } from 'zod';
import { makeBuiltService } from '../../tools/built-service.js';
import type { Checks } from '../../tools/checks.js';
import type { Cleanup } from '../../tools/cleanup.js';
import { eventually } from '../../tools/eventually.js';
import { PostgresServer } from '../../tools/postgres-server.js';
import type { ServerProcess } from '../../tools/server-process.js';
import { makeSecrets } from '../../tools/service.js';
import { TcpProxy } from '../../tools/tcp-proxy.js';
import type { Gateway } from './gateways.js';
import { Echo, send } from './http.js';
import { ApiClient, type Household, type Person, type TokenPair } from '../../tools/api-client.js';
import { readClaims } from '../../tools/read-claims.js';

/** What stands around a gateway. */
export interface World {
  readonly checks: Checks;
  readonly cleanup: Cleanup;
  readonly service: ServerProcess;
  readonly postgres: PostgresServer;
  /** Between the gateways and the service. */
  readonly network: TcpProxy;
  readonly upstream: Echo;
  readonly credentials: Credentials;
}

export async function makeWorld(checks: Checks, cleanup: Cleanup): Promise<World> {
  const postgres = await PostgresServer.start(cleanup, 'gateways');
  const secrets = makeSecrets();
  // Without a lease, each verdict is read from the database: an outage of it is one at once.
  const variables = { REVOCATION_LEASE_MS: '0' };
  const service = await makeBuiltService({ cleanup, databaseUrl: postgres.url, secrets, variables });
  await service.start();
  const network = await TcpProxy.before(service.url);
  cleanup.defer(() => network.close());
  const credentials = await makeCredentials(service.url, secrets.ADMIN_API_KEY);
  return { checks, cleanup, service, postgres, network, upstream: await Echo.start(cleanup), credentials };
}

export async function expectRecovery({ port }: Gateway, { credentials }: World): Promise<void> {
  await eventually('valid credentials pass again', async () => {
    const answers = await Promise.all(
      DOORS.map((door) => send(port, { path: `/${door}/x`, headers: credentials[door].good })),
    );
    return answers.every(({ status }) => status === 200);
  });
}

export const DOORS = ['node', 'app', 'user'] as const;
export type Door = (typeof DOORS)[number];
export type Headers = readonly (readonly [string, string])[];

/** The guarded service: the name in the configurations. */
const SERVICE_NAME = 'recipes';
const HOUSEHOLD_ID = '5b1c7a9e-0d35-4c8e-9a57-6f0b1f4f2a10';
const PERSON = { email: 'alice@example.org', password: 'correct horse battery' };
const HOMELESS = { ...PERSON, email: 'bob@example.org' };

interface Credential {
  readonly good: Headers;
  readonly bad: Headers;
  /** What the upstream receives, in the order of the names. */
  readonly identity: Readonly<Record<string, string>>;
  /** Members of a 401's body and challenge. */
  readonly code: string;
  readonly challenge: string;
}

interface Credentials extends Readonly<Record<Door, Credential>> {
  /** A valid token of a user without a household. */
  readonly homeless: Pick<Credential, 'good' | 'identity'>;
  /** A valid key of an app with the scope `documents:read` alone. */
  readonly reader: Pick<Credential, 'good' | 'identity'>;
  /** A valid key of an app without the scope `documents:read`. */
  readonly restricted: Pick<Credential, 'good'>;
}

const sessionClaims = z.object({ sub: z.string(), sid: z.string() });

async function makeCredentials(url: string, adminKey: string): Promise<Credentials> {
  const client = new ApiClient(url, adminKey);
  const node = await client.issueNode({ household_id: HOUSEHOLD_ID, room: 'hall', name: 'lamp' });
  const app = await client.issueAppCredential({ caller: 'ocr', target: SERVICE_NAME });
  const foreign = await client.issueAppCredential({ caller: 'ocr', target: 'speech' });
  const restricted = await client.issueAppCredential({
    caller: 'speech',
    target: SERVICE_NAME,
    scopes: ['pages:count'],
  });
  const reader = await client.issueAppCredential({
    caller: 'notification',
    target: SERVICE_NAME,
    scopes: ['documents:read'],
  });
  await client.register(PERSON);
  const [tokens, ended] = [await client.logIn(PERSON), await client.logIn(PERSON)];
  await client.logOut(ended);
  const households = [await client.createHousehold(tokens, 'home'), await client.createHousehold(tokens, 'cottage')];
  await client.register(HOMELESS);
  const homeless = await client.logIn(HOMELESS);
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
      good: toTokenHeaders(tokens),
      // Of a session that has ended: the signature alone does not tell.
      bad: toTokenHeaders(ended),
      identity: toUserIdentity(PERSON, tokens, households),
      code: 'invalid_access_token',
      challenge: 'Bearer ',
    },
    homeless: { good: toTokenHeaders(homeless), identity: toUserIdentity(HOMELESS, homeless, []) },
    reader: {
      good: toAppHeaders(reader),
      identity: {
        'x-auth-app-id': reader.app_id,
        'x-auth-caller': 'notification',
        'x-auth-door': 'app',
        'x-auth-scopes': 'documents:read',
      },
    },
    restricted: { good: toAppHeaders(restricted) },
  };
}

function toTokenHeaders({ access_token }: TokenPair): Headers {
  return [['Authorization', `Bearer ${access_token}`]];
}

function toUserIdentity({ email }: Person, { access_token }: TokenPair, households: readonly Household[]) {
  const { sub, sid } = sessionClaims.parse(readClaims(access_token));
  const ids = households
    .map(({ id }) => id)
    .sort()
    .join(',');
  return {
    'x-auth-amr': 'pwd',
    'x-auth-door': 'user',
    'x-auth-email': email,
    ...(ids && { 'x-auth-households': ids }),
    'x-auth-session-id': sid,
    'x-auth-user-id': sub,
  };
}

function toAppHeaders({ app_id, app_key }: { readonly app_id: string; readonly app_key: string }): Headers {
  return [
    ['X-Platform-App-Id', app_id],
    ['X-Platform-App-Key', app_key],
  ];
}
