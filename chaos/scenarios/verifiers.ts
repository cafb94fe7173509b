import { setTimeout as sleep } from 'node:timers/promises';
import { issueBothNow, revokeThrough } from '../actors/key-life.js';
import { verifyKeyEverywhere } from '../actors/verifiers.js';
import type { Scenario, Stage } from '../stage.js';

/** Several times the lease. */
const CUT_MS = 2_000;

/**
 * Keys that the verifiers have cached are revoked while they are cut off: they must answer 503, and refuse the keys
 * afterwards.
 */
export const verifiersCut: Scenario = {
  name: 'verifiers-cut',
  title: 'verifiers: the network to the service swallows everything for 2 s, then refuses connections for 2 s',
  bounds: { errors: [], silenceMs: 8_000, slowestMs: 5_000, backMs: 2_000 },
  async run(stage) {
    const load = await stage.begin({ verifiers: true });
    const proxies = load.verifiers.map(({ proxy }) => proxy);
    await stage.rest();
    stage.markInjected();
    await whileCut(stage, () => {
      for (const proxy of proxies) proxy.blackHole(true);
      return () => proxies.forEach((proxy) => proxy.blackHole(false));
    });
    await whileCut(stage, async () => {
      await Promise.all(proxies.map((proxy) => proxy.close()));
      return () => Promise.all(proxies.map((proxy) => proxy.open()));
    });
    stage.markHealed();
    await stage.rest();
  },
};

type Mend = () => unknown;

/** @param cut returns a function that ends the cut */
async function whileCut(stage: Stage, cut: () => Mend | Promise<Mend>): Promise<void> {
  const { load } = stage;
  const known = await issueBothNow(load);
  for (const credential of known) await verifyKeyEverywhere(load, credential);
  const mend = await cut();
  for (const credential of known) await revokeThrough(load, credential);
  for (const credential of known) await verifyKeyEverywhere(load, credential);
  await sleep(CUT_MS);
  await mend();
  await stage.expectVerifiersRefuse(known);
}

const PAUSED_MS = 2_000;

/** The questions wait in a pipe, so that the resumed processes read them before their timers and answers. */
export const verifiersPaused: Scenario = {
  name: 'verifiers-paused',
  title: 'verifiers: SIGSTOP for 2 s; their first act is to verify what was revoked meanwhile',
  bounds: { errors: [], silenceMs: 6_000, slowestMs: PAUSED_MS + 4_000, backMs: 2_000 },
  async run(stage) {
    const load = await stage.begin({ verifiers: true });
    await stage.rest();
    const known = await issueBothNow(load);
    for (const credential of known) await verifyKeyEverywhere(load, credential);
    stage.markInjected();
    for (const verifier of load.verifiers) verifier.signal('SIGSTOP');
    for (const credential of known) await revokeThrough(load, credential);
    const first = known.map((credential) => verifyKeyEverywhere(load, credential));
    await sleep(PAUSED_MS);
    for (const verifier of load.verifiers) verifier.signal('SIGCONT');
    stage.markHealed();
    await Promise.all(first);
    await stage.expectVerifiersRefuse(known);
    await stage.rest();
  },
};
