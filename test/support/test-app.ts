import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import type { Server } from 'node:http';
import { Test } from '@nestjs/testing';
import type { NestExpressApplication } from '@nestjs/platform-express';
import { DataSource } from 'typeorm';
import request, { type Test as SupertestRequest } from 'supertest';
import { AppModule } from '../../src/app.module.js';
import { Clock } from '../../src/common/clock.js';
import { parseEnvironment, type Variables } from '../../src/config/environment.js';
import { configureApp } from '../../src/configure-app.js';
import { DatabaseClock } from '../../src/database/database-clock.js';
import { createInternalServer } from '../../src/create-app.js';
import { LinkedExpressAdapter } from '../../src/http/linked-express.adapter.js';
import type { LogFields, LogLevel } from '../../src/logging/log-line.js';
import { Log } from '../../src/logging/log.js';
import { recordAnswers } from './documented-answers.js';
import { createTestDatabase, type TestDatabase } from './test-database.js';

export const ADMIN_KEY = 'test-admin-Kq3vYt8sLw2nXz5rBd7fGh1jMp4cQe6u';
export const SECRET_KEY = 'test-signing-Zr9tWx4yVb6nMk2jHg8fDs3aQp5oLi7u';
export const PASSWORD = 'a perfectly fine passphrase';

export const VARIABLES: Variables = {
  NODE_ENV: 'test',
  SECRET_KEY,
  ADMIN_API_KEY: ADMIN_KEY,
  BCRYPT_COST: '4',
  HASH_THREADS: '2',
  // Every revocation waits it out.
  REVOCATION_LEASE_MS: '100',
  // Tests seal by hand.
  AUDIT_SEAL_INTERVAL_SECONDS: '3600',
  LOG_LEVEL: 'silent',
  // Many people, one address. The tests of the throttles set limits of their own.
  LOGIN_LIMIT_PER_ACCOUNT_AND_ADDRESS: '1000000/60',
  LOGIN_LIMIT_PER_ACCOUNT: '1000000/60',
  LOGIN_LIMIT_PER_ADDRESS: '1000000/60',
  HASHING_BUSY_LIMIT_PER_ADDRESS: '1000000/60',
  ADMIN_KEY_LIMIT_PER_ADDRESS: '1000000/60',
  REGISTRATION_LIMIT_PER_ADDRESS: '1000000/60',
  REFRESH_LIMIT_PER_ADDRESS: '1000000/60',
};

interface Duration {
  readonly seconds?: number;
  readonly minutes?: number;
  readonly days?: number;
}

/** A clock that a test moves by hand. */
export class TestClock extends Clock {
  private passedMs = 0;
  private errorMs = 0;

  override now(): Date {
    return new Date(Date.now() + this.passedMs + this.errorMs);
  }

  /** Time passes: for this replica, and for PostgreSQL as the replica is told. */
  advance(duration: Duration): void {
    this.passedMs += millisecondsOf(duration);
  }

  /** The clock of this replica becomes wrong. */
  drift(duration: Duration): void {
    this.errorMs += millisecondsOf(duration);
  }

  /** What PostgreSQL's clock says once that time has passed. */
  ofDatabase(now: Date): Date {
    return new Date(now.getTime() + this.passedMs);
  }
}

function millisecondsOf({ seconds = 0, minutes = 0, days = 0 }: Duration): number {
  return (seconds + minutes * 60 + days * 86_400) * 1_000;
}

/** PostgreSQL's clock, moved by the time that a test lets pass. */
class MovedDatabaseClock extends DatabaseClock {
  constructor(
    dataSource: DataSource,
    private readonly clock: TestClock,
  ) {
    super(dataSource);
  }

  override async now(): Promise<Date> {
    return this.clock.ofDatabase(await super.now());
  }
}

/** A log that keeps its lines, as they would be written. */
export class TestLog extends Log {
  readonly lines: (LogFields & { message: string; level: string })[] = [];

  protected override write(level: LogLevel, message: string, fields: LogFields): void {
    this.lines.push({ level, message, ...fields });
    super.write(level, message, fields);
  }

  events(name: string): LogFields[] {
    return this.lines.filter(({ event }) => event === name);
  }
}

export interface TestAppOptions {
  readonly variables?: Variables;
  /** The replica shares this database; without it the application gets one of its own. */
  readonly database?: TestDatabase;
  readonly clock?: TestClock;
}

export interface Tokens {
  readonly access_token: string;
  readonly refresh_token: string;
}

/** A running application over a real PostgreSQL, and the people and machines that call it. */
export class TestApp {
  private constructor(
    readonly nest: NestExpressApplication,
    readonly database: TestDatabase,
    readonly clock: TestClock,
    readonly log: TestLog,
    private readonly ownsDatabase: boolean,
    /** The server of INTERNAL_PORT, where it is set. */
    readonly internal: Server | undefined,
  ) {}

  static async start(options: TestAppOptions = {}): Promise<TestApp> {
    const database = options.database ?? (await createTestDatabase());
    const environment = parseEnvironment({ ...VARIABLES, DATABASE_URL: database.url, ...options.variables });
    const clock = options.clock ?? new TestClock();
    const log = new TestLog(environment);
    const testing = await Test.createTestingModule({ imports: [AppModule.forRoot(environment)] })
      .overrideProvider(Clock)
      .useValue(clock)
      .overrideProvider(DatabaseClock)
      .useFactory({
        inject: [DataSource],
        factory: (dataSource: DataSource) => new MovedDatabaseClock(dataSource, clock),
      })
      .overrideProvider(Log)
      .useValue(log)
      .compile();
    const nest = testing.createNestApplication<NestExpressApplication>(new LinkedExpressAdapter(), {
      bodyParser: false,
    });
    recordAnswers(nest);
    configureApp(nest);
    await nest.listen(0, '127.0.0.1');
    const internal = environment.internalPort === undefined ? undefined : createInternalServer(nest);
    if (internal) await once(internal.listen(0, '127.0.0.1'), 'listening');
    return new TestApp(nest, database, clock, log, options.database === undefined, internal);
  }

  async stop(): Promise<void> {
    this.internal?.close();
    await this.nest.close();
    if (this.ownsDatabase) await this.database.drop();
  }

  get server(): Server {
    return this.nest.getHttpServer();
  }

  get(path: string): SupertestRequest {
    return request(this.server).get(path);
  }

  post(path: string, body?: object): SupertestRequest {
    const call = request(this.server).post(path);
    return body === undefined ? call : call.send(body);
  }

  patch(path: string, body: object): SupertestRequest {
    return request(this.server).patch(path).send(body);
  }

  delete(path: string): SupertestRequest {
    return request(this.server).delete(path);
  }

  /** Calls of the operator. */
  get admin() {
    const asAdmin = (call: SupertestRequest): SupertestRequest => call.set('X-Admin-Key', ADMIN_KEY);
    return {
      get: (path: string) => asAdmin(this.get(`/api/v0/admin${path}`)),
      post: (path: string, body?: object) => asAdmin(this.post(`/api/v0/admin${path}`, body)),
      patch: (path: string, body: object) => asAdmin(this.patch(`/api/v0/admin${path}`, body)),
      delete: (path: string) => asAdmin(this.delete(`/api/v0/admin${path}`)),
    };
  }

  /** A registered user who has not logged in. */
  async user(email = `${randomUUID()}@example.org`, password = PASSWORD): Promise<User> {
    const { body } = await this.post('/api/v0/auth/register', { email, password }).expect(201);
    return new User(this, body.id as string, email, password);
  }

  /** A registered node with its key. */
  async node(householdId: string = randomUUID()): Promise<Device> {
    const registration = { household_id: householdId, room: 'kitchen', name: 'speaker' };
    const { body } = await this.admin.post('/nodes', registration).expect(201);
    return { nodeId: body.node_id, apiKey: body.api_key, header: `${body.node_id}:${body.api_key}`, householdId };
  }

  /** A minted credential for a pair of services. */
  async service(caller = `caller-${randomUUID()}`, target = 'recipes'): Promise<Service> {
    const { body } = await this.admin.post('/app-credentials', { caller, target }).expect(201);
    const headers = { 'X-Platform-App-Id': body.app_id as string, 'X-Platform-App-Key': body.app_key as string };
    return { appId: body.app_id, appKey: body.app_key, caller, target, headers };
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

  /** Logs in, through another replica if one is given. */
  async logsIn(app = this.app): Promise<Tokens> {
    return (await app.login(this.email, this.password).expect(200)).body as Tokens;
  }
}

export interface Device {
  readonly nodeId: string;
  readonly apiKey: string;
  readonly householdId: string;
  /** The value of X-API-Key. */
  readonly header: string;
}

export interface Service {
  readonly appId: string;
  readonly appKey: string;
  readonly caller: string;
  readonly target: string;
  readonly headers: Record<string, string>;
}
