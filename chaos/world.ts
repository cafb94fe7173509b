import { join } from 'node:path';
import { EVENT_TYPES } from '../src/domain/events/event-types.js';
import type { Variables } from '../src/foundation/config/environment.js';
import type { Cleanup } from '../tools/cleanup.js';
import { makeTemporaryFolder } from '../tools/postgres.js';
import { PostgresServer } from '../tools/postgres-server.js';
import { untilVerdict } from '../tools/repeat-while.js';
import { replaceSettings } from '../tools/replace-settings.js';
import { makeSecrets, productionVariables } from '../tools/service.js';
import { TcpProxy } from '../tools/tcp-proxy.js';
import { startBalancer } from './balancer.js';
import { keyKinds } from './actors/key-kinds.js';
import { startLoad } from './actors/start-load.js';
import { send } from './client.js';
import { Ledger } from './ledger.js';
import type { Load, LoadOptions } from './load.js';
import { Replica } from './replica.js';
import { runCli } from './service-cli.js';
import { ConsumerProcess, toConsumingService } from './verifiers/consumer-process.js';
import { findVerifierPrograms, type VerifierProgram } from './verifiers/programs.js';
import { VerifierProcess } from './verifiers/verifier-process.js';

const REPLICAS = 3;
const SETTINGS = {
  // The watchers log in very often, and their first session must stay.
  sessionLimitPerUser: 100_000,
  // Events reach the consumers within a short scenario, and another consumer takes over.
  auditSealIntervalSeconds: 1,
  eventHoldSeconds: 3,
};
/** The target of the app keys that the actors issue. */
const VERIFYING_SERVICE = 'recipes';

interface ReplicaOptions {
  readonly variables?: Variables | undefined;
  /** Variables of the first replica only. */
  readonly ofFirst?: Variables | undefined;
  readonly replicas?: number | undefined;
  /** The compiled service; by default this build. */
  readonly script?: string | undefined;
}

/** PostgreSQL behind a proxy, replicas of the service, and a load balancer in front of them, all on loopback. */
export class World {
  private readonly startedReplicas: Replica[] = [];
  private readonly secrets = makeSecrets();
  private balancer: string | undefined;
  private verifiers: readonly VerifierProcess[] = [];
  consumers: readonly ConsumerProcess[] = [];

  private constructor(
    readonly cleanup: Cleanup,
    private primary: PostgresServer,
    readonly proxy: TcpProxy,
  ) {}

  /** Starts the database and the proxy; a scenario may prepare them before its replicas start. */
  static async withDatabase(cleanup: Cleanup): Promise<World> {
    const postgres = await PostgresServer.start(cleanup, 'chaos');
    return new World(cleanup, postgres, await startProxy(cleanup, postgres));
  }

  /** The primary. */
  get postgres(): PostgresServer {
    return this.primary;
  }

  get replicas(): readonly Replica[] {
    return this.startedReplicas;
  }

  /** @throws when there are fewer replicas */
  replica(index: number): Replica {
    const replica = this.replicas[index];
    if (!replica) throw new Error(`There is no replica ${index}`);
    return replica;
  }

  /** The defaults, except for a cheap bcrypt, and a grace longer than any fault, so that a retried refresh succeeds. */
  variables(more: Variables = {}): Variables {
    return {
      ...productionVariables(this.proxy.url, this.secrets),
      // haproxy needs a delay to notice that a replica stops.
      SHUTDOWN_DELAY_MS: undefined,
      BCRYPT_COST: '4',
      REFRESH_GRACE_SECONDS: '300',
      TRUST_PROXY: 'true',
      ...more,
      NODE_OPTIONS: [replaceSettings(SETTINGS), more.NODE_OPTIONS ?? ''].join(' '),
    };
  }

  async startReplicas({ variables, ofFirst, replicas = REPLICAS, script }: ReplicaOptions): Promise<void> {
    for (let made = 0; made < replicas; made += 1) {
      const ofOne = this.variables({ ...variables, ...(made === 0 && ofFirst) });
      this.startedReplicas.push(await Replica.create(this.cleanup, ofOne, { script }));
    }
    await Promise.all(this.replicas.map((replica) => replica.start()));
    const ports = this.replicas.map(({ server }) => server.port);
    this.balancer = await startBalancer(this.cleanup, ports);
  }

  /** Starts a verifier in each language, each behind a proxy of its own to the load balancer. */
  async startVerifiers({ ACCESS_TOKEN_ALGORITHM }: Variables = {}): Promise<void> {
    const upstream = this.balancer ?? this.replica(0).url;
    const variables = {
      ...(await this.issueOwnKey(upstream, VERIFYING_SERVICE)),
      ...(ACCESS_TOKEN_ALGORITHM !== 'ES256' && { SECRET_KEY: this.secrets.SECRET_KEY }),
    };
    this.verifiers = await Promise.all(
      findVerifierPrograms().map((program) => VerifierProcess.start(this.cleanup, program, { upstream, variables })),
    );
  }

  /** Starts consumers of events: a service for each language, and two processes of the one in TypeScript. */
  async startConsumers(): Promise<void> {
    const upstream = this.balancer ?? this.replica(0).url;
    const started = findVerifierPrograms().map((program) => this.startConsumersOf(program, upstream));
    this.consumers = (await Promise.all(started)).flat();
  }

  private async startConsumersOf(program: VerifierProgram, upstream: string): Promise<ConsumerProcess[]> {
    const service = toConsumingService(program);
    const own = await this.issueOwnKey(upstream, service);
    const path = `/api/v0/admin/event-subscriptions/${service}`;
    await this.askAsAdmin(upstream, 'PUT', path, { types: EVENT_TYPES, from: 'beginning' }, 200);
    const variables = { ...own, AUTH_URL: upstream, SECRET_KEY: this.secrets.SECRET_KEY };
    const ledger = join(makeTemporaryFolder(this.cleanup, 'events'), 'ledger');
    const count = program.name === 'typescript' ? 2 : 1;
    return Array.from({ length: count }, () => new ConsumerProcess(this.cleanup, program, ledger, variables));
  }

  startLoad(options: LoadOptions): Promise<Load> {
    const targets = () => ({ balancer: this.balancer, replicas: this.replicas.map(({ url }) => url) });
    const setting = { ledger: new Ledger(), targets, adminKey: this.secrets.ADMIN_API_KEY, verifiers: this.verifiers };
    return startLoad(setting, options);
  }

  /** @returns the variables of the key with which a service calls this one */
  private async issueOwnKey(url: string, caller: string) {
    const path = '/api/v0/admin/app-credentials';
    const { id, key } = keyKinds.app.read(await this.askAsAdmin(url, 'POST', path, { caller, target: 'auth' }, 201));
    return { AUTH_APP_ID: id, AUTH_APP_KEY: key, SERVICE_NAME: caller };
  }

  private async askAsAdmin(
    url: string,
    method: string,
    path: string,
    body: object,
    expected: number,
  ): Promise<unknown> {
    const request = { method, path, headers: { 'X-Admin-Key': this.secrets.ADMIN_API_KEY }, body };
    const answer = await untilVerdict(() => send(url, request));
    if (answer.status !== expected) throw new Error(`${method} ${path} was answered with ${answer.status}`);
    return answer.body;
  }

  /** Runs a command of an operator. @returns what it printed @throws when it fails */
  runCli(...words: readonly string[]): Promise<string> {
    const { ADMIN_API_KEY, MASTER_KEY } = this.secrets;
    const { url } = this.replica(0);
    return runCli(words, { ADMIN_API_KEY, MASTER_KEY, AUTH_URL: url, DATABASE_URL: this.postgres.url });
  }

  /** Points the replicas at a promoted standby. */
  failOver(standby: PostgresServer): void {
    this.primary = standby;
    this.proxy.redirectTo(standby.url);
  }
}

export async function startProxy(cleanup: Cleanup, postgres: PostgresServer): Promise<TcpProxy> {
  const proxy = await TcpProxy.before(postgres.url);
  cleanup.defer(() => proxy.close());
  return proxy;
}
