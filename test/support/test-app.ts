import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { Agent, type Server } from 'node:http';
import { Test } from '@nestjs/testing';
import type { NestExpressApplication } from '@nestjs/platform-express';
import { DataSource } from 'typeorm';
import request, { type Test as SupertestRequest } from 'supertest';
import { AppModule } from '../../src/app.module.js';
import { Clock } from '../../src/foundation/common/clock.js';
import type { OperatorScope } from '../../src/foundation/common/names.js';
import { parseEnvironment, type Variables } from '../../src/foundation/config/environment.js';
import type { FixedSettings } from '../../src/foundation/config/limits.js';
import { DatabaseClock } from '../../src/foundation/database/database.js';
import { configureApp, createInternalServer } from '../../src/bootstrap/serve-app.js';
import { LinkedExpressAdapter } from '../../src/foundation/http/linked-express.adapter.js';
import { Log } from '../../src/foundation/logging/log.js';
import { HashingThreads } from '../../src/domain/passwords/hashing-threads.js';
import { MailTransport } from '../../src/domain/mail/mail-transport.js';
import { TcpProxy } from '../../tools/tcp-proxy.js';
import { recordAnswers } from './documented-answers.js';
import { ADMIN_KEY, PASSWORD, SETTINGS, VARIABLES } from './settings.js';
import { MovedDatabaseClock, TestClock } from './test-clock.js';
import { createTestDatabase, type TestDatabase } from './test-database.js';
import { TestLog } from './test-log.js';

/** One thread hashes for the applications of many test files, because it is slow to start. */
class SharedThreads extends HashingThreads {
  /** It ends with its process, or after a minute without a password. */
  override async end(): Promise<void> {}
}
const threads = new SharedThreads({ niceness: 0 });

export interface TestAppOptions {
  readonly variables?: Variables;
  readonly settings?: Partial<FixedSettings>;
  /** Without it, the application gets a database of its own, and drops it at the end. */
  readonly database?: TestDatabase;
  readonly clock?: TestClock;
  /** Puts {@link TestApp.proxy} between the application, with its replicas, and the database. */
  readonly isBehindProxy?: boolean;
}

export type ReplicaOptions = Omit<TestAppOptions, 'database' | 'isBehindProxy'>;

export interface Tokens {
  readonly access_token: string;
  readonly refresh_token: string;
}

/** The application over a real PostgreSQL, with the users, nodes and services that call it. */
export class TestApp {
  readonly clock: TestClock;
  nest!: NestExpressApplication;
  database!: TestDatabase;
  proxy!: TcpProxy;
  log!: TestLog;
  /** The server of INTERNAL_PORT, when that is set. */
  internal: Server | undefined;
  private readonly replicas = new Set<TestApp>();
  /** Keeps connections: a new one for each request would take a third of the CPU of a short one. */
  private readonly agent = new Agent({ keepAlive: true });

  constructor(
    private readonly options: TestAppOptions = {},
    /** The application of which this is a replica. */
    private readonly original?: TestApp,
  ) {
    this.clock = options.clock ?? new TestClock();
  }

  static start(options?: TestAppOptions): Promise<TestApp> {
    return new TestApp(options).start();
  }

  async start(): Promise<this> {
    this.database = this.original?.database ?? this.options.database ?? (await createTestDatabase());
    const { variables, settings, isBehindProxy } = this.options;
    if (isBehindProxy) {
      this.proxy = await TcpProxy.before(this.database.url);
      this.database = { ...this.database, url: this.proxy.url };
    }
    const environment = parseEnvironment(
      { ...VARIABLES, DATABASE_URL: this.database.url, ...variables },
      { ...SETTINGS, ...settings },
    );
    this.log = new TestLog(environment);
    const builder = Test.createTestingModule({ imports: [AppModule.forRoot(environment)] })
      .overrideProvider(Clock)
      .useValue(this.clock)
      .overrideProvider(DatabaseClock)
      .useFactory({
        inject: [DataSource],
        factory: (dataSource: DataSource) => new MovedDatabaseClock(dataSource, this.clock),
      })
      .overrideProvider(Log)
      .useValue(this.log)
      .overrideProvider(HashingThreads)
      .useValue(threads);
    // Discards the mails that would be printed without a mail server, except in a test of development.
    if (environment.nodeEnv === 'test' && !environment.mailUrl)
      builder.overrideProvider(MailTransport).useValue({ sendMail: () => Promise.resolve() });
    const testing = await builder.compile();
    this.nest = testing.createNestApplication<NestExpressApplication>(new LinkedExpressAdapter(), {
      bodyParser: false,
    });
    recordAnswers(this.nest);
    configureApp(this.nest);
    await this.nest.listen(0, '127.0.0.1');
    this.internal = environment.internalPort === undefined ? undefined : createInternalServer(this.nest);
    if (this.internal) await once(this.internal.listen(0, '127.0.0.1'), 'listening');
    this.original?.replicas.add(this);
    return this;
  }

  async stop(): Promise<void> {
    for (const replica of [...this.replicas].reverse()) await replica.stop();
    // A replica stops once: with its `describe`, or with its application.
    if (this.original?.replicas.delete(this) === false) return;
    this.internal?.close();
    this.agent.destroy();
    // Closed first, because a stop waits for connections that hang.
    if (this.options.isBehindProxy) await this.proxy.close();
    await this.nest.close();
    if (!this.original && !this.options.database) await this.database.drop();
  }

  /** @returns a replica that is not started yet, with the same database, clock and settings unless told otherwise */
  newReplica({ clock = this.clock, variables, settings }: ReplicaOptions = {}): TestApp {
    const { options } = this;
    const own = { variables: { ...options.variables, ...variables }, settings: { ...options.settings, ...settings } };
    return new TestApp({ clock, ...own }, this);
  }

  startReplica(options?: ReplicaOptions): Promise<TestApp> {
    return this.newReplica(options).start();
  }

  get server(): Server {
    return this.nest.getHttpServer();
  }

  get(path: string): SupertestRequest {
    return this.call('get', path);
  }

  post(path: string, body?: object): SupertestRequest {
    const call = this.call('post', path);
    return body === undefined ? call : call.send(body);
  }

  patch(path: string, body: object): SupertestRequest {
    return this.call('patch', path).send(body);
  }

  put(path: string, body: object): SupertestRequest {
    return this.call('put', path).send(body);
  }

  delete(path: string): SupertestRequest {
    return this.call('delete', path);
  }

  private call(method: 'get' | 'post' | 'patch' | 'put' | 'delete', path: string): SupertestRequest {
    return request(this.server)[method](path).agent(this.agent);
  }

  /** Calls with the root key. */
  get admin() {
    return this.asAdmin(ADMIN_KEY);
  }

  /** Calls at the admin door with a key. */
  asAdmin(key: string) {
    const asAdmin = (call: SupertestRequest): SupertestRequest => call.set('X-Admin-Key', key);
    return {
      get: (path: string) => asAdmin(this.get(`/api/v0/admin${path}`)),
      post: (path: string, body?: object) => asAdmin(this.post(`/api/v0/admin${path}`, body)),
      patch: (path: string, body: object) => asAdmin(this.patch(`/api/v0/admin${path}`, body)),
      put: (path: string, body: object) => asAdmin(this.put(`/api/v0/admin${path}`, body)),
      delete: (path: string) => asAdmin(this.delete(`/api/v0/admin${path}`)),
    };
  }

  /** @returns a registered user who has not logged in */
  async user(email = `${randomUUID()}@example.org`, password = PASSWORD): Promise<User> {
    const { body } = await this.post('/api/v0/auth/register', { email, password }).expect(201);
    return new User(this, body.id as string, email, password);
  }

  /** @returns a new node with its key */
  async node(householdId: string = randomUUID()): Promise<Device> {
    const registration = { household_id: householdId, room: 'kitchen', name: 'speaker' };
    const { body } = await this.admin.post('/nodes', registration).expect(201);
    return { nodeId: body.node_id, apiKey: body.api_key, header: `${body.node_id}:${body.api_key}`, householdId };
  }

  /** @returns a new credential for a pair of services */
  async service(caller = `caller-${randomUUID()}`, target = 'recipes', scopes?: string[]): Promise<Service> {
    const { body } = await this.admin.post('/app-credentials', { caller, target, scopes }).expect(201);
    const headers = { 'X-Platform-App-Id': body.app_id as string, 'X-Platform-App-Key': body.app_key as string };
    return { appId: body.app_id, appKey: body.app_key, caller, target, headers };
  }

  /** @returns an operator with a key of its own */
  async operator(
    scopes: readonly OperatorScope[] = ['read'],
    name = `operator-${randomUUID()}`,
    expires_at: string | null = null,
  ): Promise<NamedOperator> {
    const { body } = await this.admin.post('/operators', { name, scopes, expires_at }).expect(201);
    return { id: body.operator_id, name, key: body.api_key, as: (app = this) => app.asAdmin(body.api_key as string) };
  }

  validateNode(header: string): SupertestRequest {
    return this.post('/internal/validate-node').set('X-API-Key', header);
  }

  validateApp(headers: Record<string, string>, body?: object): SupertestRequest {
    return this.post('/internal/validate-app', body).set(headers);
  }

  login(email: string, password = PASSWORD): SupertestRequest {
    return this.post('/api/v0/auth/login', { email, password });
  }

  refresh(refreshToken: string): SupertestRequest {
    return this.post('/api/v0/auth/refresh', { refresh_token: refreshToken });
  }

  /** @returns the tokens that a refresh token is exchanged for */
  async rotate(refreshToken: string): Promise<Tokens> {
    return (await this.refresh(refreshToken).expect(200)).body as Tokens;
  }

  logout(refreshToken: string): SupertestRequest {
    return this.post('/api/v0/auth/logout', { refresh_token: refreshToken });
  }

  me(accessToken: string): SupertestRequest {
    return this.get('/api/v0/users/me').set('Authorization', `Bearer ${accessToken}`);
  }
}

export class User {
  constructor(
    private readonly app: TestApp,
    readonly id: string,
    readonly email: string,
    readonly password: string,
  ) {}

  /** Logs in, at another replica if one is given. */
  async logsIn(app = this.app): Promise<Tokens> {
    return (await app.login(this.email, this.password).expect(200)).body as Tokens;
  }

  /** @returns the stored hash */
  async passwordHash(): Promise<string> {
    const sql = 'SELECT password_hash AS hash FROM users WHERE id = $1';
    return (await this.app.database.query<{ hash: string }>(sql, [this.id]))[0]!.hash;
  }
}

export interface Device {
  readonly nodeId: string;
  readonly apiKey: string;
  readonly householdId: string;
  /** The value of X-API-Key. */
  readonly header: string;
}

export interface NamedOperator {
  readonly id: string;
  readonly name: string;
  readonly key: string;
  /** Calls of this operator, at another replica if one is given. */
  as(app?: TestApp): TestApp['admin'];
}

export interface Service {
  readonly appId: string;
  readonly appKey: string;
  readonly caller: string;
  readonly target: string;
  readonly headers: Record<string, string>;
}
