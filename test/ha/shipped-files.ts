// The files of deploy/ha/ as the test starts them. What differs from the shipped text is in this file and nowhere else:
// ports, addresses, folders, passwords, and a member's name.
import { execFileSync } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { chmodSync, chownSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { claimPort } from '../../tools/claim-port.js';
import type { Cleanup } from '../../tools/cleanup.js';
import { makePassword, makeTemporaryFolder } from '../../tools/postgres.js';
import type { ProgramUser } from '../../tools/program.js';

const PROGRAMS = '/usr/lib/postgresql';
/** Debian's packages of PostgreSQL make it. */
const SYSTEM_USER = 'postgres';
export const MEMBERS = ['db1', 'db2', 'db3'] as const;
export const REPLICAS = ['auth1', 'auth2', 'auth3'] as const;

export type MemberName = (typeof MEMBERS)[number];
type Replacements = readonly (readonly [shipped: string, own: string])[];

/** Where one run puts what. Members and etcd have addresses of their own on loopback, and keep the shipped ports. */
export interface Place {
  readonly cleanup: Cleanup;
  readonly folder: string;
  /** PostgreSQL, Patroni and PgBouncer refuse to run as root. Undefined: the user of this process. */
  readonly user: ProgramUser | undefined;
  readonly password: string;
  readonly etcdAddress: string;
  readonly addresses: Readonly<Record<MemberName, string>>;
  /** Of HAProxy, which leads to the primary. */
  readonly databasePort: number;
  /** Of HAProxy, which leads to the replicas of the service. */
  readonly servicePort: number;
  readonly certificate: string;
}

export async function makePlace(cleanup: Cleanup): Promise<Place> {
  const folder = makeTemporaryFolder(cleanup, 'ha');
  // One of many networks, so that two runs on one machine do not meet.
  const network = `127.${randomInt(20, 250)}.${randomInt(1, 250)}`;
  const addresses = { db1: `${network}.1`, db2: `${network}.2`, db3: `${network}.3` };
  const user = findServerUser();
  return {
    cleanup,
    folder,
    user,
    password: makePassword(),
    etcdAddress: `${network}.10`,
    addresses,
    databasePort: await claimPort(),
    servicePort: await claimPort(),
    certificate: makeCertificate(folder, user, Object.values(addresses)),
  };
}

/** @returns a new folder of one program */
export function makeFolder({ folder, user }: Place, name: string): string {
  const made = join(folder, name);
  mkdirSync(made, { mode: 0o700 });
  giveTo(user, made);
  return made;
}

/** @returns the path of the configuration of one member */
export function writePatroni(place: Place, name: MemberName, folder: string): string {
  return write(place, 'patroni.yml', join(folder, 'patroni.yml'), [
    ['name: db1', `name: ${name}`],
    ['etcd1:2379,etcd2:2379,etcd3:2379', `${place.etcdAddress}:2379`],
    ['db1:', `${place.addresses[name]}:`],
    ['0.0.0.0:', `${place.addresses[name]}:`],
    ['10.0.0.0/8', '127.0.0.0/8'],
    ['replace-me', place.password],
    ['/usr/lib/postgresql/15/bin', findPostgresPrograms()],
    ['/var/lib/postgresql/15/main', join(folder, 'data')],
    ['/var/lib/postgresql', folder],
    ['/var/run/postgresql', folder],
    ['/etc/patroni/ca.crt', place.certificate],
    ['/etc/patroni', place.folder],
  ]);
}

/** @returns the path of the configuration of HAProxy before the members */
export function writeDatabaseBalancer(place: Place): string {
  return write(place, 'haproxy.cfg', join(place.folder, 'haproxy.cfg'), [
    ['bind :5432', `bind 127.0.0.1:${place.databasePort}`],
    ...MEMBERS.map((name) => [`${name}:`, `${place.addresses[name]}:`] as const),
  ]);
}

/** @returns the path of the configuration of HAProxy before the replicas */
export function writeServiceBalancer(place: Place, ports: readonly number[]): string {
  return write(place, 'haproxy-service.cfg', join(place.folder, 'haproxy-service.cfg'), [
    ['bind :80', `bind 127.0.0.1:${place.servicePort}`],
    ...REPLICAS.map((name, index) => [`${name}:7701`, `127.0.0.1:${ports[index]}`] as const),
  ]);
}

/** @returns the path of the configuration of PgBouncer, whose mode is replaced where the test wants a wrong one */
export function writePgBouncer(place: Place, mode: string, port: number, usersFile: string): string {
  const file = join(place.folder, `pgbouncer-${mode}.ini`);
  return write(place, 'pgbouncer.ini', file, [
    ['host=haproxy.internal port=5432', `host=127.0.0.1 port=${place.databasePort}`],
    ['listen_addr = *', 'listen_addr = 127.0.0.1'],
    ['listen_port = 6432', `listen_port = ${port}\nunix_socket_dir =`],
    ['/etc/pgbouncer/userlist.txt', usersFile],
    ['/etc/pgbouncer/ca.crt', place.certificate],
    ['pool_mode = session', `pool_mode = ${mode}`],
  ]);
}

function write({ user }: Place, shipped: string, file: string, replacements: Replacements): string {
  let text = readFileSync(join('deploy/ha', shipped), 'utf8');
  for (const [from, to] of replacements) {
    if (!text.includes(from)) throw new Error(`deploy/ha/${shipped} does not have "${from}"`);
    text = text.replaceAll(from, to);
  }
  writeFileSync(file, text, { mode: 0o600 });
  giveTo(user, file);
  return file;
}

/** @returns the path of a certificate that is its own authority; its key is beside it, as patroni.yml expects */
function makeCertificate(folder: string, user: ProgramUser | undefined, addresses: readonly string[]): string {
  const [file, key] = [join(folder, 'server.crt'), join(folder, 'server.key')];
  const names = ['DNS:localhost', 'IP:127.0.0.1', ...addresses.map((address) => `IP:${address}`)].join();
  const kind = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];
  const flags = ['-subj', '/CN=database', '-days', '2', '-addext', `subjectAltName=${names}`, '-keyout', key];
  execFileSync('openssl', ['req', '-x509', ...kind, ...flags, '-out', file], { stdio: 'pipe' });
  chmodSync(key, 0o600);
  giveTo(user, key);
  return file;
}

export function findServerUser(): ProgramUser | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const id = (flag: string): number => Number(execFileSync('id', [flag, SYSTEM_USER], { encoding: 'utf8' }));
  return { uid: id('-u'), gid: id('-g') };
}

/** @returns the folder of the newest installed version */
export function findPostgresPrograms(): string {
  const [version] = readdirSync(PROGRAMS).toSorted((a, b) => Number(b) - Number(a));
  return join(PROGRAMS, String(version), 'bin');
}

export function giveTo(user: ProgramUser | undefined, path: string): void {
  if (user) chownSync(path, user.uid, user.gid);
}
