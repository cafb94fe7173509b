import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { kinds } from '../actors/key-kinds.js';
import { mint, newKey, validateEverywhere } from '../actors/key-life.js';
import { defer } from '../cleanup.js';
import { now, sleep } from '../client.js';
import { FAKETIME, whyNoFaketime } from '../faketime.js';

const DAY_MS = 24 * 3_600_000;
const JUMP_TIMEOUT_MS = 10_000;

/** Longer than the jumps: a token with a shorter lifetime would expire by the jump, which is correct. */
const LONG_LIVES = { ACCESS_TOKEN_EXPIRE_MINUTES: String(14 * 24 * 60) };

export default {
  name: 'clock-jumps',
  title: 'the clock of all replicas jumps by +2 days, then to −2 days, then back',
  bounds: { errors: [], silenceMs: 3_000, slowestMs: 3_000 },
  // A refresh repeated on another replica around a jump would be days apart, far beyond the grace.
  load: { repeatsRefreshes: false },
  whyNot: whyNoFaketime,
  async prepare(stage) {
    const folder = mkdtempSync(join(tmpdir(), 'platform-auth-clock-'));
    defer(() => rmSync(folder, { recursive: true, force: true }));
    stage.setClock = (offset) => writeFileSync(join(folder, 'offset'), offset);
    stage.setClock('+0d');
    await stage.world.startReplicas({
      ...LONG_LIVES,
      LD_PRELOAD: FAKETIME,
      FAKETIME_TIMESTAMP_FILE: join(folder, 'offset'),
      FAKETIME_CACHE_DURATION: '1',
      DONT_FAKE_MONOTONIC: '1',
    });
  },
  async run({ world: { load, replicas }, setClock, quiet, expect }) {
    const jump = async (days) => {
      setClock(`${days < 0 ? '' : '+'}${days}d`);
      for (const replica of replicas) expect(await hasJumped(replica, days), `a clock did not jump to ${days} days`);
    };
    await quiet();
    await jump(2);
    const rotated = await mint(load, kinds.node);
    const old = await rotateAtOnce(load, rotated);
    expect(old !== undefined, 'no key was rotated at +2 days');
    await quiet();
    await jump(-2);
    if (old) await validateEverywhere(load, rotated, old);
    await quiet();
    await jump(0);
    await quiet();
  },
};

/** Waits until the Date header of a replica's responses shows the changed clock. */
async function hasJumped({ url }, days) {
  for (const deadline = now() + JUMP_TIMEOUT_MS; now() < deadline; await sleep(100)) {
    const { headers } = await fetch(`${url}/health/live`);
    const ahead = Date.parse(headers.get('date')) - Date.now();
    if (Math.abs(ahead - days * DAY_MS) < DAY_MS / 24) return true;
  }
  return false;
}

/** Rotates a key without overlap and does not use its successor. @returns the ended key */
async function rotateAtOnce(load, credential) {
  const { kind, id, key: old } = credential;
  old.life.ending();
  const answer = await load.admin('POST', `${kind.path}/${id}/rotate`, { overlap_hours: 0 });
  if (!load.done('admin', `rotating ${old.name}`, answer, 200)) return undefined;
  old.life.ended();
  credential.key = newKey(credential, kind.keyOf(answer.body));
  return old;
}
