import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '../../tools/eventually.js';
import { Program } from '../../tools/program.js';
import { Member } from './member.js';
import { makeFolder, MEMBERS, writeDatabaseBalancer, type Place } from './shipped-files.js';

/** The members share the processors with what asks them. */
const POLL_INTERVAL_MS = 100;
const CHANGE_TIMEOUT_MS = 120_000;
const MAX_OUTPUT_CHARACTERS = 2_000;

/** Three members with one etcd, and HAProxy, which leads to their primary. */
export class Cluster {
  private constructor(
    private readonly place: Place,
    readonly etcd: Program,
    readonly members: readonly Member[],
  ) {}

  /** Starts everything, and makes the service's role and its database. Resolves when a standby is synchronous. */
  static async start(place: Place): Promise<Cluster> {
    const etcd = await startEtcd(place);
    const members = MEMBERS.map((name) => new Member(place, name));
    for (const member of members) member.start();
    Program.start(place.cleanup, 'haproxy', ['-db', '-f', writeDatabaseBalancer(place)]);
    const cluster = new Cluster(place, etcd, members);
    const primary = await cluster.awaitPrimary();
    await cluster.awaitStandbys(primary);
    await primary.query(`CREATE ROLE auth_owner LOGIN PASSWORD '${place.password}'`);
    await primary.query('CREATE DATABASE auth OWNER auth_owner');
    return cluster;
  }

  /** DATABASE_URL of the service: through HAProxy, with the checks that the page recommends. */
  get url(): string {
    const { password, databasePort, certificate } = this.place;
    return `postgresql://auth_owner:${password}@localhost:${databasePort}/auth?sslmode=verify-full&sslrootcert=${certificate}`;
  }

  /** Resolves when a member that is not the given one is the primary. */
  async awaitPrimary(former?: Member): Promise<Member> {
    let primary: Member | undefined;
    const others = this.members.filter((member) => member !== former);
    const isFound = async (): Promise<boolean> => {
      await sleep(POLL_INTERVAL_MS);
      for (const member of others) if (await member.isPrimary()) primary = member;
      return primary !== undefined;
    };
    await this.awaitChange('a member is the primary', isFound);
    return primary ?? Promise.reject(new Error('There is no primary'));
  }

  /** Resolves when every other member that runs follows the primary, and one of them synchronously. */
  async awaitStandbys(primary: Member, count = MEMBERS.length - 1): Promise<void> {
    const isSo = async (): Promise<boolean> => {
      await sleep(POLL_INTERVAL_MS);
      const rows = await primary.query(`SELECT sync_state FROM pg_stat_replication WHERE state = 'streaming'`);
      if (rows.length < count) return false;
      const areSynchronous = await Promise.all(this.members.map((member) => member.isSynchronous()));
      return areSynchronous.includes(true);
    };
    await this.awaitChange('the standbys follow the primary', () => isSo().catch(() => false));
  }

  /** @throws with what each Patroni wrote last */
  private async awaitChange(what: string, isSo: () => Promise<boolean>): Promise<void> {
    try {
      await eventually(what, isSo, CHANGE_TIMEOUT_MS);
    } catch (cause) {
      const outputs = this.members.map(({ name, output }) => `${name}:\n${output.slice(-MAX_OUTPUT_CHARACTERS)}`);
      throw new Error([`It never happened that ${what}`, ...outputs].join('\n'), { cause });
    }
  }
}

async function startEtcd(place: Place): Promise<Program> {
  const { cleanup, etcdAddress, user } = place;
  const [clients, peers] = [`http://${etcdAddress}:2379`, `http://${etcdAddress}:2380`];
  const flags = {
    'data-dir': makeFolder(place, 'etcd'),
    'listen-client-urls': clients,
    'advertise-client-urls': clients,
    'listen-peer-urls': peers,
    'initial-advertise-peer-urls': peers,
    'initial-cluster': `default=${peers}`,
  };
  const words = Object.entries(flags).map(([name, value]) => `--${name}=${value}`);
  const etcd = Program.start(cleanup, 'etcd', words, user);
  await eventually('etcd listens', () => isListening(etcdAddress, 2379));
  return etcd;
}

async function isListening(host: string, port: number): Promise<boolean> {
  const socket = connect(port, host);
  try {
    await once(socket, 'connect');
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}
