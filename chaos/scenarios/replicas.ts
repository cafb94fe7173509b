import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import type { Scenario } from '../stage.js';
import { issueBothNow, revokeThrough, validate } from '../actors/key-life.js';
import { verifyKeyEverywhere } from '../actors/verifiers.js';
import { hasBalancer } from '../balancer.js';

const DOWN_MS = 2_000;

/** Callers of the killed replica retry on another one, and the load balancer notices within two health checks. */
export const replicaKilled: Scenario = {
  name: 'replica-killed',
  title: 'a replica: kill -9, started again after 2 s',
  bounds: { errors: ['network', 'balancer 502', 'balancer 503'], silenceMs: 2_000, slowestMs: 3_000, backMs: 2_000 },
  async run(stage) {
    await stage.begin({ verifiers: true, consumers: true });
    await stage.rest();
    const victim = stage.world.replica(1);
    stage.markInjected();
    await victim.kill();
    await sleep(DOWN_MS);
    await victim.start();
    stage.markHealed();
    await stage.rest();
  },
};

const PAUSED_MS = 10_000;
const ARRIVES_MS = 50;

/**
 * During the pause, keys are revoked that the replica and its verifiers have cached; the first requests afterwards
 * present them.
 */
export const replicaPaused: Scenario = {
  name: 'replica-paused',
  title: 'a replica: SIGSTOP for 10 s; its first act is to validate what was revoked meanwhile',
  bounds: {
    errors: ['timeout', 'network', 'balancer 502', 'balancer 503', 'balancer 504'],
    silenceMs: 5_000,
    // The verifiers are led to the paused replica.
    verifierSilenceMs: PAUSED_MS + 4_000,
    slowestMs: PAUSED_MS + 5_000,
    backMs: 3_000,
  },
  async run(stage) {
    const load = await stage.begin({ load: { timeoutMs: 1_000 }, verifiers: true, consumers: true });
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

const SWITCHES = 24;
const SWITCH_INTERVAL_MS = 150;

/** Each switch cuts the verifier's connections, and takes its cursor to a replica that may have read less. */
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

const STOP_TIMEOUT_MS = 15_000;

/** A rolling restart, and an upgrade, must not affect callers behind the load balancer. */
export const rollingRestart: Scenario = {
  name: 'rolling-restart',
  title: 'each replica in turn: SIGTERM, exit 0, started again',
  bounds: { errors: [], silenceMs: 2_000, slowestMs: 2_000 },
  whyNot: () => (hasBalancer ? undefined : 'haproxy is not installed'),
  async run(stage) {
    const script = stage.old && join(stage.old, 'dist', 'service', 'main.js');
    await stage.begin({ script, load: { onlyBalancer: true }, verifiers: true });
    await stage.rest();
    for (const [index, replica] of stage.world.replicas.entries()) {
      const bound = stage.scale(STOP_TIMEOUT_MS);
      const code = await Promise.race([replica.server.stop(), sleep(bound, 'late', { ref: false })]);
      const name = `replica ${index + 1}`;
      if (code === 'late') throw new Error(`${name} took more than ${bound} ms to stop`);
      stage.expect(code === 0, `${name} exited with ${String(code)}`);
      replica.upgrade();
      await replica.start();
      await stage.rest();
    }
  },
};

const REPLICAS = 8;
const counts = z.tuple([z.object({ all: z.int(), different: z.int() })]);

export const eightReplicas: Scenario = {
  name: 'eight-replicas',
  title: 'eight replicas start at once on an empty database',
  bounds: { errors: [], silenceMs: 3_000, slowestMs: 3_000 },
  async run(stage) {
    await stage.begin({ replicas: REPLICAS });
    const [{ all, different }] = counts.parse(
      await stage.world.postgres.query(
        'SELECT count(*)::int AS all, count(DISTINCT name)::int AS different FROM migrations',
      ),
    );
    stage.expect(all > 0 && all === different, `${all} migrations ran, of ${different}`);
    await stage.rest();
  },
};
