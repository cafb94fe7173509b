// `platform-auth dev`: the service for a team that builds another one beside it. Invariants: loopback only, never in
// production, a database of its own in DEV_FOLDER, and no secret but the fixed ones, which are public.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { bracketHost, probePort } from '../../foundation/common/network.js';
import { findPackageFile } from '../../foundation/common/package-version.js';
import { SERVICE_FLAGS } from '../../foundation/common/service-flags.js';
import {
  parseTokenSettings,
  parseVariable,
  toFileVariable,
  type Variables,
} from '../../foundation/config/environment.js';
import { FILE_VARIABLES } from '../../foundation/config/variables.js';
import { generateSecret } from '../../foundation/crypto/secret.js';
import { withClient } from '../../foundation/database/connection-check.js';
import { getViolatedConstraint } from '../../foundation/database/database-failure.js';
import { EmbeddedPostgres } from '../../foundation/embedded-postgres/embedded-postgres.js';
import { createTokenRules } from '../platform/environment-files.js';
import { OWN_NAME, parsePlatformMap, readMapText, type PlatformMap } from '../platform/platform-map.js';
import { joinPath } from '../http-client.js';
import { AdminClient } from '../remote/admin-client.js';
import { CommandFailedError, say } from '../terminal.js';
import { listDevVariables, writeDevRecords } from './dev-records.js';
import { DEV_NODE, DEV_SECRETS, DEV_USER, getDevAdminKey } from './fixed-values.js';

/** In the current folder, and apart from the data of `npm start`. */
const DEV_FOLDER = '.data/dev';
const DEFAULT_MAP = 'platform.yaml';
const LOOPBACK_HOST = /^(127(\.\d{1,3}){3}|localhost|::1)$/;
/** The map where there is none. */
const EXAMPLE_MAP = `services:
  auth: { url: http://127.0.0.1:7701 }
  recipes: { url: http://127.0.0.1:7706, calls: [auth, ocr] }
  ocr: { url: http://127.0.0.1:7705, calls: [auth] }
`;

/** What a colleague pastes into the environment of a service, and sends to it. */
export interface DevValues {
  readonly url: string;
  /** The map that is applied; null: the example. */
  readonly map: string | null;
  /** Holds the data. */
  readonly folder: string;
  readonly user: Readonly<Record<'id' | 'email' | 'password', string>>;
  readonly node: Readonly<Record<'node_id' | 'api_key' | 'household_id', string>>;
  readonly node_targets: readonly string[] | null;
  readonly admin_api_key: string;
  readonly services: readonly { readonly name: string; readonly variables: Variables }[];
}

interface DevRequest {
  /** Undefined: platform.yaml of the current folder, or else the example. */
  readonly map: string | undefined;
  /** The variables of this process. */
  readonly given: Variables;
  readonly show: (values: DevValues) => void;
}

/** Serves until a signal ends this process. @throws {CommandFailedError} */
export async function dev({ map, given, show }: DevRequest): Promise<void> {
  refuseUnsafe(given);
  const path = map ?? (existsSync(DEFAULT_MAP) ? DEFAULT_MAP : undefined);
  const text = path === undefined ? EXAMPLE_MAP : readMapText(path);
  const parseMap = (ownUrl?: string): PlatformMap => parsePlatformMap(text, path ?? 'the example', ownUrl);
  const variables = createVariables(given, parseMap());
  await refuseTakenPort(variables);
  const stopping = listenForStop();
  const folder = makeFolder();
  const database = await EmbeddedPostgres.start({
    folder: join(folder, 'postgres'),
    makePassword: () => generateSecret(),
    onCreate: () => say('Creating a PostgreSQL database (only the first time) …'),
  });
  try {
    const service = startService(folder, { ...variables, DATABASE_URL: database.url() }, stopping);
    try {
      const ports = await service.ports;
      if (ports) {
        const url = toUrl(variables.HOST, ports.internalPort ?? ports.port);
        const map = parseMap(url);
        await withClient(database.url(), (client) => writeDevRecords(client, map.services)).catch((error: unknown) =>
          refuseTakenEmail(error, database.folder),
        );
        await subscribe(AdminClient.from(url, { ADMIN_API_KEY: getDevAdminKey(OWN_NAME) }), map);
        show(createValues(map, given, { map: path ?? null, folder: database.folder }));
      }
      const code = await service.ended;
      if (code !== 0 && !stopping.aborted)
        throw new CommandFailedError('The service has ended. The lines above say why.', 'service_ended');
    } finally {
      service.stop();
      await service.ended;
    }
  } finally {
    await database.stop();
  }
}

/** Gives each service the subscription of the map, as `apply` does: a service without `events` keeps what it has. */
async function subscribe(client: AdminClient, { services }: PlatformMap): Promise<void> {
  for (const { name, events: types } of services)
    if (types) await client.put(joinPath('/event-subscriptions', name), { types });
}

/** A user with another id, who has the address by a registration or a change of it. */
function refuseTakenEmail(error: unknown, folder: string): never {
  if (getViolatedConstraint(error) !== 'users_email_key') throw error;
  throw new CommandFailedError(
    `Another user of this database has ${DEV_USER.email}. Delete the folder ${folder} to begin anew.`,
    'email_taken',
  );
}

/** The fixed secrets are public, so any client that reaches the port may do everything. */
function refuseUnsafe(given: Variables): void {
  if (given.NODE_ENV === 'production')
    throw new CommandFailedError(
      'NODE_ENV is production, and the keys of platform-auth dev are public: unset NODE_ENV, or set up a platform with platform-auth init.',
      'production',
    );
  for (const name of ['HOST', 'METRICS_HOST'])
    if (given[name] !== undefined && !LOOPBACK_HOST.test(given[name]))
      throw new CommandFailedError(
        `${name} is not a loopback address, and the keys of platform-auth dev are public: unset it, or set it to 127.0.0.1.`,
        'not_loopback',
      );
}

/** @returns the variables of the service: the given ones, but none of its secrets, and neither mail server nor `.env` */
function createVariables(given: Variables, map: PlatformMap): Variables & { readonly HOST: string } {
  const own = map.services.find(({ name }) => name === OWN_NAME);
  const secrets = new Set(FILE_VARIABLES.flatMap((name) => [name as string, toFileVariable(name)]));
  const kept = Object.entries(given).filter(([name]) => !secrets.has(name));
  return {
    BCRYPT_COST: String(DEV_USER.cost),
    HOST: '127.0.0.1',
    ...Object.fromEntries(kept),
    ...(own && listDevVariables(own, createTokenRules(map))),
    ...DEV_SECRETS,
    NODE_ENV: 'development',
    SERVICE_NAME: OWN_NAME,
  };
}

/** Asked before anything is made, because a second `platform-auth dev` is the most likely reason. */
async function refuseTakenPort(variables: Variables & { readonly HOST: string }): Promise<void> {
  const port = parseVariable(variables, 'PORT');
  try {
    await probePort(port, variables.HOST);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error;
    throw new CommandFailedError(
      `Port ${port} is taken: platform-auth dev or npm start may be running already. Stop it, or choose another port: PORT=7702 platform-auth dev`,
      'port_taken',
    );
  }
}

function listenForStop(): AbortSignal {
  const stopping = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => stopping.abort());
  return stopping.signal;
}

/** @returns its absolute path. Git ignores it in every repository, because the data is worth nothing elsewhere. */
function makeFolder(): string {
  const folder = resolve(DEV_FOLDER);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  writeFileSync(join(folder, '.gitignore'), '*\n');
  return folder;
}

type Ports = Readonly<{ port: number; internalPort?: number }>;

/** Starts the service in the folder, so that it reads no `.env`. Resolves `ports` with undefined when it exits first. */
function startService(folder: string, env: Variables, stopping: AbortSignal) {
  const child = spawn(process.execPath, [...SERVICE_FLAGS, fileURLToPath(findPackageFile('dist/service/main.js'))], {
    cwd: folder,
    env,
    // Its lines go to standard error, where the result of a command never is.
    stdio: ['ignore', 2, 2, 'ipc'],
    // No signal of the terminal reaches it: only this process ends it, once.
    detached: true,
  });
  const stop = (): void => void child.kill('SIGTERM');
  stopping.addEventListener('abort', stop);
  if (stopping.aborted) stop();
  const ended = once(child, 'exit').then(([code]) => code as number | null);
  const ports = once(child, 'message').then(([message]) => message as Ports);
  return { ended, stop, ports: Promise.race([ports, ended.then(() => undefined)]) };
}

function toUrl(host: string, port: number): string {
  return `http://${bracketHost(host)}:${port}`;
}

function createValues(map: PlatformMap, given: Variables, made: Pick<DevValues, 'map' | 'folder'>): DevValues {
  const rules = createTokenRules(map, parseTokenSettings(given));
  const { id, email, password } = DEV_USER;
  const others = map.services.filter(({ name }) => name !== OWN_NAME);
  return {
    url: rules.url,
    ...made,
    user: { id, email, password },
    node: { node_id: DEV_NODE.id, api_key: DEV_NODE.key, household_id: DEV_NODE.householdId },
    node_targets: map.services[0]?.nodeTargets ?? null,
    admin_api_key: getDevAdminKey(OWN_NAME),
    services: others.map((service) => ({ name: service.name, variables: listDevVariables(service, rules) })),
  };
}
