import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { claimPort } from '../../tools/claim-port.js';
import type { Cleanup } from '../../tools/cleanup.js';
import { makePassword, makeTemporaryFolder, withClient } from '../../tools/postgres.js';
import { makeSecrets, productionVariables } from '../../tools/service.js';
import { findPostgresPrograms, findServerUser } from '../ha/shipped-files.js';
import { fromRoot } from '../support/from-root.js';

const run = promisify(execFile);

/** `systemctl` for a machine without systemd: it knows one service. */
const SYSTEMCTL = `#!/bin/bash
alive() { curl --silent --output /dev/null "http://127.0.0.1:$SERVICE_PORT/health/live"; }
if [ "$1" != start ] && [ -f service.pid ]; then kill "$(cat service.pid)"; while alive; do sleep 0.1; done; fi
[ "$1" = stop ] && exit
env -i PATH="$PATH" bash -c 'set -a; . env/auth.env; exec node dist/service/main.js' >>service.log 2>&1 </dev/null &
echo $! >service.pid
until curl --silent --fail --output /dev/null "http://127.0.0.1:$SERVICE_PORT/health"; do
  kill -0 "$(cat service.pid)" || exit 1
  sleep 0.2
done
`;
/** Writes the new password, as an operator would. */
const EDITOR = `#!/bin/bash
sed -i "s|^DATABASE_URL=.*|DATABASE_URL=$NEW_URL|" "$1"
`;

/** A machine with PostgreSQL as Debian ships it, a built checkout, and an operator at its shell. */
export class Operator {
  private readonly newPassword = makePassword();
  private setup = '';

  private constructor(
    private readonly folder: string,
    private readonly databasePort: number,
    private readonly servicePort: number,
    private readonly password: string,
  ) {}

  static async start(cleanup: Cleanup): Promise<Operator> {
    const folder = makeTemporaryFolder(cleanup, 'runbooks');
    const operator = new Operator(folder, await claimPort(), await claimPort(), makePassword());
    await operator.startPostgres(cleanup);
    operator.makeCheckout();
    cleanup.defer(async () => operator.shell('systemctl stop platform-auth'));
    return operator;
  }

  get url(): string {
    return `http://127.0.0.1:${this.servicePort}`;
  }

  get adminKey(): string {
    return /^ADMIN_API_KEY=(.+)$/m.exec(readFileSync(join(this.folder, 'env/auth.env'), 'utf8'))?.[1] ?? '';
  }

  urlOf(role: 'auth_owner' | 'auth_service' | 'postgres', password = this.password, database = 'auth'): string {
    return `postgresql://${role}:${password}@127.0.0.1:${this.databasePort}/${database}`;
  }

  /** What every later shell begins with. */
  beginShellsWith(block: string): void {
    this.setup = block;
  }

  /** Runs a block in a new shell. Types the connection string of the owner where asked, then the new password twice. */
  async shell(block: string): Promise<void> {
    const path = join(this.folder, 'block.sh');
    writeFileSync(path, this.fill(`${this.setup}${block}`));
    const flags = ['--norc', '-eu', '-o', 'pipefail', '-O', 'expand_aliases'];
    // Without a terminal of its own, programs ask on standard input.
    const child = spawn('bash', [...flags, path], { cwd: this.folder, env: this.environment, detached: true });
    child.stdin.on('error', () => undefined);
    const asksForOwner = this.setup.includes('read -rs OWNER_URL');
    const typed = [...(asksForOwner ? [this.urlOf('auth_owner')] : []), this.newPassword, this.newPassword];
    child.stdin.end(typed.map((line) => `${line}\n`).join(''));
    const said = Promise.all([text(child.stdout), text(child.stderr)]);
    const [code] = (await once(child, 'exit')) as [number | null];
    if (code !== 0) throw new Error(`${block}\nexited with ${code}:\n${(await said).join('')}`);
  }

  private get environment() {
    return {
      PATH: [join(this.folder, 'bin'), findPostgresPrograms(), process.env.PATH].join(':'),
      HOME: this.folder,
      EDITOR: 'write-password',
      NEW_URL: this.urlOf('auth_service', this.newPassword),
      SERVICE_PORT: String(this.servicePort),
    };
  }

  /** Replaces what an operator would replace. */
  private fill(block: string): string {
    const values: Readonly<Record<string, string>> = {
      '<host>': '127.0.0.1',
      '<port>': String(this.databasePort),
      '<database>': 'auth',
      '<owner of the tables>': 'auth_owner',
      '<its password>': this.password,
      ':7701': `:${this.servicePort}`,
      ...this.named,
    };
    return Object.entries(values).reduce((filled, [name, value]) => filled.replaceAll(name, value), block);
  }

  /** Values of the placeholders that a scenario knows. */
  readonly named: Record<string, string> = {};

  private async startPostgres(cleanup: Cleanup): Promise<void> {
    const [programs, user, data] = [findPostgresPrograms(), findServerUser(), join(this.folder, 'data')];
    const passwordFile = join(this.folder, 'password');
    writeFileSync(passwordFile, this.password, { mode: 0o644 });
    mkdirSync(data, { mode: 0o700 });
    if (user) await run('chown', [`${user.uid}:${user.gid}`, data]);
    const options = { ...user, cwd: '/' };
    const flags = ['--pgdata', data, '--username', 'postgres', '--auth', 'scram-sha-256', '--no-sync'];
    await run(join(programs, 'initdb'), [...flags, '--pwfile', passwordFile], options);
    const control = (...words: string[]) => run(join(programs, 'pg_ctl'), ['--pgdata', data, ...words], options);
    const settings = `-p ${this.databasePort} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off`;
    cleanup.defer(() => control('stop', '--mode', 'immediate'));
    await control('start', '--wait', '--log', join(data, 'log'), '--options', settings);
    await withClient(this.urlOf('postgres', this.password, 'postgres'), async (client) => {
      await client.query(
        `CREATE ROLE auth_owner LOGIN CREATEROLE PASSWORD '${this.password}' IN ROLE pg_signal_backend`,
      );
      await client.query('CREATE DATABASE auth OWNER auth_owner');
      await client.query(`CREATE ROLE auth_service LOGIN PASSWORD '${this.password}' ADMIN auth_owner`);
    });
  }

  private makeCheckout(): void {
    // Without src: a block creates a migration there.
    const checkout = ['dist', 'node_modules', 'package.json', 'tools'];
    for (const path of checkout) symlinkSync(fromRoot(path), join(this.folder, path));
    // In quotes, as `init` writes a value with special characters.
    const service = productionVariables(`'${this.urlOf('auth_service')}'`, makeSecrets());
    const variables = { ...service, AUDIT_SEAL_KEY: makeSecrets().SECRET_KEY, PORT: String(this.servicePort) };
    const lines = Object.entries(variables).map(([name, value]) => `${name}=${value}\n`);
    mkdirSync(join(this.folder, 'env'));
    writeFileSync(join(this.folder, 'env/auth.env'), lines.join(''), { mode: 0o600 });
    mkdirSync(join(this.folder, 'bin'));
    for (const [name, script] of Object.entries({ systemctl: SYSTEMCTL, 'write-password': EDITOR })) {
      writeFileSync(join(this.folder, 'bin', name), script);
      chmodSync(join(this.folder, 'bin', name), 0o755);
    }
  }
}
