import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { eventually } from '../../tools/eventually.js';
import { withClient } from '../../tools/postgres.js';
import { Program } from '../../tools/program.js';
import { makeFolder, writePatroni, type MemberName, type Place } from './shipped-files.js';

const ANSWER_TIMEOUT_MS = 5_000;
const SWITCHOVER_TIMEOUT_MS = 60_000;

const status = z.object({
  state: z.string(),
  role: z.string(),
  timeline: z.int().optional(),
  failsafe_mode_is_active: z.boolean().optional(),
});
const processes = z.array(z.object({ pid: z.int() }));

/** A member of the cluster: Patroni with deploy/ha/patroni.yml, and the PostgreSQL that it starts. */
export class Member {
  private patroni: Program | undefined;
  private readonly folder: string;
  private readonly configuration: string;

  constructor(
    private readonly place: Place,
    readonly name: MemberName,
  ) {
    this.folder = makeFolder(place, name);
    this.configuration = writePatroni(place, name, this.folder);
    place.cleanup.defer(() => this.end());
  }

  /** Starts Patroni, which starts PostgreSQL. */
  start(): void {
    const { cleanup, user } = this.place;
    // libpq looks for certificates in the home folder, which must not be root's.
    const environment = ['-i', `PATH=${process.env.PATH}`, `HOME=${this.folder}`, 'LC_ALL=C.UTF-8'];
    this.patroni = Program.start(cleanup, 'env', [...environment, 'patroni', this.configuration], user);
  }

  /** What Patroni wrote since its last start. */
  get output(): string {
    return this.patroni?.output ?? '';
  }

  /** @returns what Patroni says about its member; undefined when it does not answer */
  async readStatus(): Promise<z.output<typeof status> | undefined> {
    try {
      return status.parse(await (await this.fetch('/patroni')).json());
    } catch {
      return undefined;
    }
  }

  async isPrimary(): Promise<boolean> {
    const found = await this.readStatus();
    return found?.state === 'running' && (found.role === 'master' || found.role === 'primary');
  }

  /** Whether Patroni would promote this member: it has every acknowledged write. */
  async isSynchronous(): Promise<boolean> {
    return (await this.fetch('/synchronous').catch(() => undefined))?.ok ?? false;
  }

  /** Hands the primary's role to the synchronous standby. */
  async switchOver(): Promise<void> {
    const body = JSON.stringify({ leader: this.name });
    const answer = await this.fetch('/switchover', { method: 'POST', body }, SWITCHOVER_TIMEOUT_MS);
    if (!answer.ok) throw new Error(`The switchover was refused: ${answer.status} ${await answer.text()}`);
  }

  /** Queries this member as the superuser, over its socket. */
  query(sql: string, values: readonly unknown[] = [], database = 'postgres'): Promise<unknown[]> {
    const url = `postgresql://postgres:${this.place.password}@localhost/${database}?host=${this.folder}`;
    return withClient(url, async (client) => {
      const { rows }: { rows: unknown[] } = await client.query(sql, [...values]);
      return rows;
    });
  }

  /** Writes what no standby receives: from now on its data and those of the standbys have different histories. */
  async writeAlone(sql: string): Promise<void> {
    for (const { pid } of processes.parse(await this.query('SELECT pid FROM pg_stat_replication')))
      process.kill(pid, 'SIGSTOP');
    await this.query(`SET synchronous_commit = local; ${sql}`);
  }

  /** `kill -9` of Patroni and of every process of PostgreSQL, as when the machine loses its power. */
  async kill(): Promise<void> {
    await this.patroni?.kill();
    const postmaster = this.readPostmaster();
    if (postmaster === undefined) return;
    const children = readFileSync(`/proc/${postmaster}/task/${postmaster}/children`, 'utf8').trim();
    for (const pid of [postmaster, ...children.split(' ').map(Number)]) sendSignal(pid, 'SIGKILL');
    await this.ended();
  }

  /** Ends Patroni, and PostgreSQL at once, which removes its shared memory all the same. */
  private async end(): Promise<void> {
    await this.patroni?.kill();
    const postmaster = this.readPostmaster();
    if (postmaster === undefined) return;
    sendSignal(postmaster, 'SIGQUIT');
    await this.ended();
  }

  private ended(): Promise<void> {
    return eventually(`PostgreSQL of ${this.name} has ended`, () => this.readPostmaster() === undefined);
  }

  /** @returns its process; undefined when it does not run */
  private readPostmaster(): number | undefined {
    try {
      const pid = Number(readFileSync(join(this.folder, 'data', 'postmaster.pid'), 'utf8').split('\n')[0]);
      process.kill(pid, 0);
      return readFileSync(`/proc/${pid}/stat`, 'utf8').includes(') Z ') ? undefined : pid;
    } catch {
      return undefined;
    }
  }

  private fetch(path: string, init: RequestInit = {}, timeoutMs = ANSWER_TIMEOUT_MS): Promise<Response> {
    const credentials = Buffer.from(`patroni:${this.place.password}`).toString('base64');
    const headers = { Authorization: `Basic ${credentials}` };
    const signal = AbortSignal.timeout(timeoutMs);
    return fetch(`http://${this.place.addresses[this.name]}:8008${path}`, { ...init, headers, signal });
  }
}

function sendSignal(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It has exited.
  }
}
