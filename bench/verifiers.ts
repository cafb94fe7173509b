// Verifiers in TypeScript: what they save, and what they cost the service.
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '../tools/eventually.js';
import { isResponding, statusOf } from '../tools/server-process.js';
import { createEvictions } from './evictions.js';
import { itemOf, createHttpContestant, type HttpRequest } from './loads.js';
import type { Contestant } from './measure.js';
import { NAMES } from './names.js';
import type { Known, Maker, Setting } from './population.js';
import { createPolling } from './polls.js';
import type { Target } from './testbed.js';
import type { OwnKey } from './work-messages.js';
import { RefusedError } from '../clients/typescript/src/errors.js';
import { Verifier } from '../clients/typescript/src/verifier.js';
import type { ApiClient } from '../tools/api-client.js';

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

/** A route to which each connection sends the key of its own node. All are remembered before each measurement. */
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

/** Issues a key for a service with a name of its own, at the measured service. */
export async function issueOwnKey({ client, service, testbed }: Setting): Promise<OwnKey> {
  const serviceName = `recipes-${randomUUID()}`;
  const { app_id, app_key } = await client.issueAppCredential({ caller: serviceName, target: 'auth' });
  return { url: service.url, appId: app_id, appKey: app_key, serviceName, secretKey: testbed.secrets.SECRET_KEY };
}

/** Issues a key at a service that hands no lease on, so that an answer may be used for half a second only. */
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

interface EmbeddingService {
  readonly program: string;
  readonly words: readonly string[];
  /** Where it listens. */
  readonly port: number;
  readonly variables: NodeJS.ProcessEnv;
}

/** Starts a service in another language, which embeds a verifier. */
export async function startEmbedding({ testbed }: Setting, service: EmbeddingService): Promise<Target> {
  const { program, words, port, variables } = service;
  const child = spawn(program, words, { env: variables, stdio: ['ignore', 'inherit', 'inherit'] });
  testbed.defer(() => child.kill('SIGKILL'));
  const url = `http://127.0.0.1:${port}`;
  await eventually(`${program} listens`, () => isResponding(url));
  return { url, pid: child.pid ?? NaN };
}

/** Starts what several contestants share, at the first call. */
export function memoize<Result>(start: () => Promise<Result>): () => Promise<Result> {
  let started: Promise<Result> | undefined;
  return () => (started ??= start());
}

/** More callers than one door has questions. */
const FLOOD_CALLERS = 400;
const ATTACKER = '203.0.113.9';
const OTHER = '198.51.100.1';
const NODES = 100;

interface VerifierFlood {
  readonly name: string;
  readonly own: OwnKey;
  readonly client: ApiClient;
}

/**
 * Counts how many new nodes at another address, and how many requests of remembered nodes at the attacker's address,
 * are accepted during the flood.
 */
function createVerifierFlood({ name, own, client }: VerifierFlood): Contestant {
  const load = async (seconds: number) => {
    const [known, unknown] = [await registerKeys(client), await registerKeys(client)];
    const { url, appId, appKey, serviceName } = own;
    const verifier = new Verifier({ url, appId, appKey, serviceName });
    const present = (key: string, ip: string): Promise<'accepted' | 'refused' | 'unavailable'> =>
      verifier.verifyNode({ headers: { 'x-api-key': key }, ip }).then(
        () => 'accepted',
        (error: unknown) => (error instanceof RefusedError ? 'refused' : 'unavailable'),
      );
    try {
      for (const key of known)
        await eventually('a key is accepted', async () => (await present(key, ATTACKER)) === 'accepted');
      const flood = new Flood(() => present(`${randomUUID()}:${randomUUID()}`, ATTACKER));
      const pauseMs = (seconds * 1_000) / NODES;
      const answers = { new: [] as string[], known: [] as string[] };
      for (const [index, key] of known.entries()) {
        await sleep(pauseMs);
        answers.known.push(await present(key, ATTACKER));
        answers.new.push(await present(itemOf(unknown, index), OTHER));
      }
      const throughput = await flood.stop();
      return { throughput, newShare: shareOf(answers.new), knownShare: shareOf(answers.known) };
    } finally {
      verifier.close();
    }
  };
  return { name, load };
}

class Flood {
  private readonly startedAt = performance.now();
  private readonly callers: Promise<unknown>;
  private count = 0;
  private isOver = false;

  constructor(private readonly call: () => Promise<unknown>) {
    this.callers = Promise.all(Array.from({ length: FLOOD_CALLERS }, () => this.repeat()));
  }

  /** @returns calls per second */
  async stop(): Promise<number> {
    this.isOver = true;
    const rate = (this.count * 1_000) / (performance.now() - this.startedAt);
    await this.callers;
    return rate;
  }

  private async repeat(): Promise<void> {
    while (!this.isOver) {
      await this.call();
      this.count += 1;
      // A refusal is immediate, so that without a pause these calls would never leave the event loop to others.
      await sleep(1);
    }
  }
}

async function registerKeys(client: ApiClient): Promise<string[]> {
  const keys: string[] = [];
  for (let index = 0; index < NODES; index += 1) {
    const node = { household_id: randomUUID(), room: 'hall', name: `flooded ${index}` };
    const { node_id, api_key } = await client.issueNode(node);
    keys.push(`${node_id}:${api_key}`);
  }
  return keys;
}

const shareOf = (answers: readonly string[]): number =>
  (100 * answers.filter((answer) => answer === 'accepted').length) / answers.length;
