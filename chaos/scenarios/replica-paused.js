import { kinds } from '../actors/key-kinds.js';
import { mint, validate } from '../actors/key-life.js';
import { sleep } from '../client.js';

const PAUSED_MS = 10_000;
const ARRIVES_MS = 50;

/** Keys in its cache are revoked during the pause; the first requests after it validate them. */
export default {
  name: 'replica-paused',
  title: 'a replica: SIGSTOP for 10 s; its first act is to validate what was revoked meanwhile',
  bounds: {
    errors: ['timeout', 'network', 'balancer 502', 'balancer 503', 'balancer 504'],
    silenceMs: 5_000,
    slowestMs: PAUSED_MS + 5_000,
    backMs: 3_000,
  },
  load: { timeoutMs: 1_000 },
  async run({ world: { replicas, load }, quiet, healed, expect }) {
    const [paused, other] = replicas;
    await quiet();
    const remembered = [await mint(load, kinds.node), await mint(load, kinds.app)];
    for (const credential of remembered) {
      const accepted = await validate(load, credential, credential.key, undefined, paused.url);
      expect(accepted, `${credential.key.name} was not accepted before the pause`);
    }
    paused.signal('SIGSTOP');
    for (const { kind, id, key } of remembered) {
      key.life.ending();
      const attempt = () => load.admin('DELETE', `${kind.path}/${id}`, undefined, other.url);
      if (await load.insist('admin', `revoking ${key.name}`, attempt, 204)) key.life.ended();
    }
    await sleep(PAUSED_MS);
    const first = remembered.map(({ kind, id, key }) =>
      load.ask({ ...kind.request(id, key.text), timeoutMs: PAUSED_MS }, paused.url),
    );
    await sleep(ARRIVES_MS);
    paused.signal('SIGCONT');
    healed();
    for (const [index, answer] of (await Promise.all(first)).entries()) {
      const { kind, key } = remembered[index];
      const accepted = load.judge(kind.validation, `${key.name}, after the pause`, key.life, answer);
      expect(accepted === false, `${key.name}: not refused after the pause but answered ${answer.status}`);
    }
    await quiet();
  },
};
