import { setTimeout as sleep } from 'node:timers/promises';
import { issueBothNow, revokeThrough, validate } from '../actors/key-life.js';
import { verifyKeyEverywhere } from '../actors/verifiers.js';
import type { Scenario } from '../stage.js';

const PAUSED_MS = 10_000;
const ARRIVES_MS = 50;

/**
 * Keys in its cache, and in those of verifiers that are led to it, are revoked during the pause; the first requests after it
 * validate them.
 */
export const replicaPaused: Scenario = {
  name: 'replica-paused',
  title: 'a replica: SIGSTOP for 10 s; its first act is to validate what was revoked meanwhile',
  bounds: {
    errors: ['timeout', 'network', 'balancer 502', 'balancer 503', 'balancer 504'],
    silenceMs: 5_000,
    // They are led to the paused replica.
    verifierSilenceMs: PAUSED_MS + 4_000,
    slowestMs: PAUSED_MS + 5_000,
    backMs: 3_000,
  },
  async run(stage) {
    const load = await stage.begin({ load: { timeoutMs: 1_000 }, verifiers: true });
    const [paused, other] = [stage.world.replica(0), stage.world.replica(1)];
    await stage.rest();
    const known = await issueBothNow(load);
    for (const credential of known) {
      const wasAccepted = await validate(load, credential, { base: paused.url });
      stage.expect(wasAccepted === true, `${credential.key.name} was not accepted before the pause`);
    }
    for (const { proxy } of load.verifiers) proxy.redirectTo(paused.url);
    for (const credential of known) await verifyKeyEverywhere(load, credential);
    stage.markInjected();
    paused.server.signal('SIGSTOP');
    for (const credential of known) await revokeThrough(load, credential, other.url);
    await sleep(PAUSED_MS);
    const asked = known.map(async ({ kind, id, key }) => {
      const answer = await load.ask({ ...kind.request(id, key.text), timeoutMs: PAUSED_MS }, paused.url);
      return { kind, key, answer };
    });
    const verified = known.map((credential) => verifyKeyEverywhere(load, credential));
    await sleep(ARRIVES_MS);
    paused.server.signal('SIGCONT');
    stage.markHealed();
    await Promise.all(verified);
    await stage.expectVerifiersRefuse(known);
    for (const { kind, key, answer } of await Promise.all(asked)) {
      const wasAccepted = load.judge(kind.validation, `${key.name}, after the pause`, key.life, answer);
      const told = `${key.name}: not refused after the pause but answered ${answer.status}`;
      stage.expect(wasAccepted === false, told);
    }
    await stage.rest();
  },
};
