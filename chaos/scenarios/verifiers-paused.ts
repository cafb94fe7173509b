import { setTimeout as sleep } from 'node:timers/promises';
import { issueBothNow, revokeThrough } from '../actors/key-life.js';
import { verifyKeyEverywhere } from '../actors/verifiers.js';
import type { Scenario } from '../stage.js';

const PAUSED_MS = 2_000;

/** The questions wait in a pipe: they are the first thing that the processes read, before their timers and answers. */
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
