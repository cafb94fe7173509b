// The files of deploy/ha/ with the real programs, as Debian ships them: three members of Patroni with etcd, PgBouncer,
// HAProxy before the members and before three replicas of the service. Under the load of `npm run chaos` the primary's
// role is handed over, etcd goes away, and the primary is killed and comes back; the ledger of acknowledged writes judges
// every answer and the database at the end. shipped-files.ts says what differs from the shipped text. The last line
// counts what was checked.
import { startLoad } from '../../chaos/actors/start-load.js';
import { audit } from '../../chaos/audit.js';
import { closeConnections } from '../../chaos/client.js';
import { Ledger } from '../../chaos/ledger.js';
import { HOT } from '../../chaos/record.js';
import { Checks } from '../../tools/checks.js';
import type { Cleanup } from '../../tools/cleanup.js';
import { Cluster } from './cluster.js';
import { awaitVerdicts, bringBack, killPrimary, stopEtcd, switchOver } from './faults.js';
import { checkRefusedMode, checkSessionMode } from './poolers.js';
import { ADMIN_KEY, Service } from './services.js';
import { makePlace, type Place } from './shipped-files.js';

const MAX_NAMED = 5;
const checks = new Checks();

async function checkNoReplica({ url }: Service): Promise<void> {
  const answer = await fetch(`${url}/internal/validate-node`, { method: 'POST' });
  const { code } = (await answer.json()) as { code: string };
  const found = [answer.status, answer.headers.get('retry-after'), code].join();
  checks.note('HAProxy: without a replica that is ready, 503 with Retry-After', found === '503,2,unavailable', found);
}

async function checkFaults(place: Place, cluster: Cluster): Promise<void> {
  const service = await Service.create(place, cluster.url);
  await checkNoReplica(service);
  await service.start();
  const targets = () => ({ balancer: service.url, replicas: service.replicas.map(({ url }) => url) });
  const setting = { ledger: new Ledger(), targets, adminKey: ADMIN_KEY, verifiers: [] };
  const load = await startLoad(setting, { onlyBalancer: true });
  try {
    await awaitVerdicts(load);
    await switchOver(checks, load, cluster);
    await stopEtcd(checks, load, cluster);
    await bringBack(checks, load, cluster, await killPrimary(checks, load, cluster));
  } finally {
    await load.stop();
  }
  const { record, ledger } = load;
  const primary = await cluster.awaitPrimary();
  await audit({ query: (sql, values) => primary.query(sql, values, 'auth') }, load);
  closeConnections();
  const right = HOT.reduce((sum, route) => sum + record.countRight(route), 0);
  const writes = ledger.credentials.length + ledger.users.length + ledger.sessions.length;
  checks.note(`no wrong verdict among ${right}`, record.wrong.length === 0, nameFirst(record.wrong));
  checks.note(
    `no acknowledged write lost: ${writes} keys, users and sessions, ${ledger.revoked.length} of them revoked`,
    record.lost.length === 0 && ledger.revoked.length > 0,
    nameFirst(record.lost),
  );
}

function nameFirst(texts: readonly string[]): string {
  return texts.slice(0, MAX_NAMED).join('\n  ');
}

async function checkAll(cleanup: Cleanup): Promise<void> {
  const place = await makePlace(cleanup);
  const cluster = await Cluster.start(place);
  checks.note('patroni.yml: three members start, and the standbys follow the primary', true);
  await checkSessionMode(checks, place, cluster);
  for (const mode of ['transaction', 'statement']) await checkRefusedMode(checks, place, cluster, mode);
  await checkFaults(place, cluster);
}

await checks.around(checkAll);
