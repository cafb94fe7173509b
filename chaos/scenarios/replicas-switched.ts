import { setTimeout as sleep } from 'node:timers/promises';
import type { Scenario } from '../stage.js';

const SWITCHES = 24;
const SWITCH_INTERVAL_MS = 150;

/** Each switch cuts the connections of the verifier, and takes its cursor to a replica that may have read less. */
export const replicasSwitched: Scenario = {
  name: 'replicas-switched',
  title: `verifiers: led to another replica ${SWITCHES} times in ${(SWITCHES * SWITCH_INTERVAL_MS) / 1_000} s, their connections cut`,
  bounds: { errors: [], silenceMs: 2_000, slowestMs: 4_000, backMs: 2_000 },
  async run(stage) {
    const load = await stage.begin({ verifiers: true });
    const { replicas } = stage.world;
    await stage.rest();
    stage.markInjected();
    for (let turn = 0; turn < SWITCHES; turn += 1) {
      for (const [index, { proxy }] of load.verifiers.entries())
        proxy.redirectTo(stage.world.replica((turn + index) % replicas.length).url);
      await sleep(SWITCH_INTERVAL_MS);
    }
    stage.markHealed();
    await stage.rest();
  },
};
