// What happens to the cluster while the load goes on.
import type { Checks } from '../../tools/checks.js';
import { eventually } from '../../tools/eventually.js';
import { findWorst, HOT } from '../../chaos/record.js';
import type { Load } from '../../chaos/load.js';
import type { Cluster } from './cluster.js';
import type { Member } from './member.js';

/** Longer than any recovery; ends a run that fails. */
const RECOVERY_TIMEOUT_MS = 120_000;

/** Resolves when each hot route has given a correct answer to a request from now on. */
export async function awaitVerdicts({ record }: Load): Promise<void> {
  const before = new Map(HOT.map((route) => [route, record.countRight(route)]));
  // The first one may have been on its way.
  const isBack = (): boolean => HOT.every((route) => record.countRight(route) > (before.get(route) ?? 0) + 1);
  await eventually('every hot route gives verdicts', isBack, RECOVERY_TIMEOUT_MS);
}

/** Runs a fault, and prints how long it took, and the longest time without a verdict of any route so far. */
async function measure(checks: Checks, load: Load, name: string, fault: () => Promise<boolean>): Promise<void> {
  const startedAt = performance.now();
  const holds = await fault();
  const seconds = ((performance.now() - startedAt) / 1_000).toFixed(1);
  await awaitVerdicts(load);
  const silentSeconds = ((findWorst(load.record.silences)?.ms ?? 0) / 1_000).toFixed(1);
  checks.note(`${name} (${seconds} s; longest time without a verdict so far ${silentSeconds} s)`, holds);
}

export function switchOver(checks: Checks, load: Load, cluster: Cluster): Promise<void> {
  return measure(checks, load, 'switchover: another member is the primary, and the former one follows it', async () => {
    const former = await cluster.awaitPrimary();
    await former.switchOver();
    const primary = await cluster.awaitPrimary(former);
    await cluster.awaitStandbys(primary);
    return primary !== former;
  });
}

/** failsafe_mode: the primary asks the other members instead of etcd. */
export function stopEtcd(checks: Checks, load: Load, cluster: Cluster): Promise<void> {
  return measure(checks, load, 'etcd away: the primary stays the primary in failsafe mode', async () => {
    const primary = await cluster.awaitPrimary();
    cluster.etcd.signal('SIGSTOP');
    const isActive = async (): Promise<boolean> => (await primary.readStatus())?.failsafe_mode_is_active ?? false;
    await eventually('the primary is in failsafe mode', isActive, RECOVERY_TIMEOUT_MS);
    await awaitVerdicts(load);
    const isStill = await primary.isPrimary();
    cluster.etcd.signal('SIGCONT');
    await eventually('failsafe mode ends', async () => !(await isActive()), RECOVERY_TIMEOUT_MS);
    return isStill;
  });
}

/** @returns the killed member, which has written what the next primary does not have */
export async function killPrimary(checks: Checks, load: Load, cluster: Cluster): Promise<Member> {
  const former = await cluster.awaitPrimary();
  await measure(checks, load, 'primary killed: the synchronous standby is promoted', async () => {
    await former.writeAlone('CREATE TABLE never_acknowledged ()');
    await former.kill();
    await cluster.awaitStandbys(await cluster.awaitPrimary(former), 1);
    return true;
  });
  return former;
}

export function bringBack(checks: Checks, load: Load, cluster: Cluster, former: Member): Promise<void> {
  const name = 'former primary: pg_rewind brings it to the history of the new one, which it follows';
  return measure(checks, load, name, async () => {
    former.start();
    const primary = await cluster.awaitPrimary(former);
    await cluster.awaitStandbys(primary);
    const [{ exists } = { exists: true }] = (await former.query(
      `SELECT to_regclass('never_acknowledged') IS NOT NULL AS exists`,
    )) as { exists: boolean }[];
    const timelines = [await former.readStatus(), await primary.readStatus()].map((found) => found?.timeline);
    return former.output.includes('pg_rewind exit code=0') && !exists && timelines[0] === timelines[1];
  });
}
