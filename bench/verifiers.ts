// Verifiers in TypeScript: what they save, and what they cost the service.
import { randomUUID } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { eventually } from '../tools/eventually.js';
import { statusOf } from '../tools/server-process.js';
import { createEvictions } from './evictions.js';
import { createVerifierFlood } from './verifier-floods.js';
import { itemOf, createHttpContestant, type HttpRequest } from './loads.js';
import type { Contestant } from './measure.js';
import { NAMES } from './names.js';
import type { Known, Maker, Setting } from './population.js';
import { createPolling } from './polls.js';
import type { Target } from './testbed.js';
import type { OwnKey } from './work-messages.js';

const GUARDED = fileURLToPath(new URL('./guarded.js', import.meta.url));

export function listVerifiers(setting: Setting): [string, Maker][] {
  const { testbed, service, known } = setting;
  const nodes = toKeys(known);
  const tokens = known.bearers.map(({ token }) => token);
  const alone =
    (start: () => ReturnType<typeof testbed.startWork>): Maker =>
    async (name) => ({ name, load: await start() });
  const app = memoize(() => startGuarded(setting));
  const route =
    (path: string): Maker =>
    async (name) =>
      createRoute(name, await app(), known, path);
  return [
    [NAMES.bareKey, alone(() => testbed.startWork('bareKey', { nodes }))],
    [NAMES.key, alone(async () => testbed.startWork('rememberedKey', { own: await issueOwnKey(setting), nodes }))],
    [NAMES.askingKey, alone(async () => testbed.startWork('askingKey', { own: await issueAskingKey(setting), nodes }))],
    [NAMES.token, alone(async () => testbed.startWork('rememberedToken', { own: await issueOwnKey(setting), tokens }))],
    [NAMES.es256, alone(() => testbed.startWork('es256', { tokens }))],
    [NAMES.express, route('/plain')],
    [NAMES.expressGuarded, route('/guarded')],
    [NAMES.fewPolls, async (name) => createPolling({ name, verifiers: 100, service, own: await issueOwnKey(setting) })],
    [
      NAMES.manyPolls,
      async (name) => createPolling({ name, verifiers: 1_000, service, own: await issueOwnKey(setting) }),
    ],
    [
      NAMES.eviction,
      async (name) =>
        createEvictions({
          name,
          own: await issueOwnKey(setting),
          client: setting.client,
          databaseUrl: testbed.database.url(),
        }),
    ],
    [
      NAMES.flooded,
      async (name) => createVerifierFlood({ name, own: await issueOwnKey(setting), client: setting.client }),
    ],
  ];
}

export function toKeys({ nodes }: Known): string[] {
  return nodes.map(({ node_id, api_key }) => `${node_id}:${api_key}`);
}

/** A route to which each connection sends the key of its own node. Before each measurement, all of them are remembered. */
export function createRoute(name: string, target: Target, known: Known, path: string): Contestant {
  const requests = toKeys(known).map((key): HttpRequest => ({ method: 'GET', path, headers: { 'X-API-Key': key } }));
  const isServed = async ({ headers = {} }: HttpRequest): Promise<boolean> =>
    (await statusOf(target.url + path, { headers })) === 200;
  return createHttpContestant({
    name,
    target,
    prepare: async () => {
      for (const request of requests) await eventually('a key is accepted', () => isServed(request));
    },
    setupClient: (connection, index) => connection.setRequests([itemOf(requests, index)]),
  });
}

/** The key of a service with a name of its own, for the measured service. */
export async function issueOwnKey({ client, service, testbed }: Setting): Promise<OwnKey> {
  const serviceName = `recipes-${randomUUID()}`;
  const { app_id, app_key } = await client.issueAppCredential({ caller: serviceName, target: 'auth' });
  return { url: service.url, appId: app_id, appKey: app_key, serviceName, secretKey: testbed.secrets.SECRET_KEY };
}

/** The same, for a service that hands no lease on: an answer may then be used for half a second. */
export async function issueAskingKey(setting: Setting): Promise<OwnKey> {
  const { url } = await setting.testbed.startService({ REVOCATION_LEASE_MS: '0' });
  return { ...(await issueOwnKey(setting)), url };
}

/** The variables that `platform-auth init` writes. */
export function toVariables({ url, appId, appKey, serviceName, secretKey }: OwnKey): Record<string, string> {
  return { AUTH_URL: url, AUTH_APP_ID: appId, AUTH_APP_KEY: appKey, SERVICE_NAME: serviceName, SECRET_KEY: secretKey };
}

async function startGuarded(setting: Setting): Promise<Target> {
  return setting.testbed.startProgram(GUARDED, toVariables(await issueOwnKey(setting)));
}

/** Starts, at the first call, what several contestants share. */
export function memoize<Result>(start: () => Promise<Result>): () => Promise<Result> {
  let started: Promise<Result> | undefined;
  return () => (started ??= start());
}
