import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { z } from 'zod';
import { claimPort } from '../../tools/claim-port.js';
import type { Cleanup } from '../../tools/cleanup.js';
import { eventually } from '../../tools/eventually.js';
import type { PostgresServer } from '../../tools/postgres-server.js';
import { Program } from '../../tools/program.js';

export const HAPROXY_CONFIGURATION = 'deploy/ha/haproxy.cfg';
const PGBOUNCER_CONFIGURATION = 'deploy/ha/pgbouncer.ini';

const recovery = z.tuple([z.object({ standby: z.boolean() })]);
const storedPassword = z.tuple([z.object({ secret: z.string() })]);

/** What the programs run with. */
export interface Setting {
  readonly cleanup: Cleanup;
  /** For their files. */
  readonly folder: string;
}

/** Starts HAProxy with deploy/ha/haproxy.cfg and the addresses of this machine. @returns the URL of the primary */
export async function startHaproxy({ cleanup, folder }: Setting, members: readonly PostgresServer[]): Promise<string> {
  const port = await claimPort();
  let text = readFileSync(HAPROXY_CONFIGURATION, 'utf8')
    .replace('bind :5432', `bind 127.0.0.1:${port}`)
    .replace('server db3 db3:5432 init-addr libc,none', '');
  for (const [index, member] of members.entries()) {
    const name = `db${index + 1}`;
    text = text.replace(`${name}:5432`, `127.0.0.1:${member.port} port ${await startPatroni(cleanup, member)}`);
  }
  const file = join(folder, 'haproxy.cfg');
  writeFileSync(file, text);
  Program.start(cleanup, 'haproxy', ['-db', '-f', file]);
  return atPort(members[0]?.url ?? '', port);
}

/** Starts PgBouncer with deploy/ha/pgbouncer.ini and the addresses of this machine. It refuses to run as root. */
export async function startPgBouncer(
  { cleanup, folder }: Setting,
  postgres: PostgresServer,
  mode: string,
): Promise<string> {
  const { username, pathname } = new URL(postgres.url);
  const [{ secret }] = storedPassword.parse(
    await postgres.query('SELECT rolpassword AS secret FROM pg_authid WHERE rolname = $1', [username]),
  );
  const port = await claimPort();
  const users = join(folder, 'userlist.txt');
  writeFileSync(users, `"${username}" "${secret}"\n`);
  const settings: readonly [RegExp, string][] = [
    [/^auth = .*$/m, `${pathname.slice(1)} = host=127.0.0.1 port=${postgres.port}`],
    [/^listen_addr = .*$/m, 'listen_addr = 127.0.0.1'],
    [/^listen_port = .*$/m, `listen_port = ${port}\nunix_socket_dir =`],
    [/^auth_file = .*$/m, `auth_file = ${users}`],
    [/^pool_mode = .*$/m, `pool_mode = ${mode}`],
  ];
  const example = readFileSync(PGBOUNCER_CONFIGURATION, 'utf8');
  const file = join(folder, `pgbouncer-${mode}.ini`);
  writeFileSync(
    file,
    settings.reduce((text, [line, value]) => text.replace(line, value), example),
  );
  const pgbouncer = Program.start(cleanup, 'pgbouncer', [file], postgres.user);
  await eventually(`PgBouncer listens in pool_mode = ${mode}`, () => pgbouncer.output.includes('process up'));
  return atPort(postgres.url, port);
}

/** Stands in for Patroni: answers 200 while a server is the primary, and 503 otherwise. @returns its port */
async function startPatroni(cleanup: Cleanup, postgres: PostgresServer): Promise<number> {
  const answer = async (): Promise<number> => {
    const [{ standby }] = recovery.parse(await postgres.query('SELECT pg_is_in_recovery() AS standby'));
    return standby ? 503 : 200;
  };
  const port = await claimPort();
  const server = createServer((_request, response) => {
    void answer()
      .catch(() => 503)
      .then((status) => response.writeHead(status).end());
  }).listen(port, '127.0.0.1');
  await once(server, 'listening');
  cleanup.defer(() => server.close());
  return port;
}

function atPort(url: string, port: number): string {
  return Object.assign(new URL(url), { port: String(port) }).href;
}
