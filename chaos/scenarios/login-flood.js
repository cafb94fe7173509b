import { logIn } from '../actors/sessions.js';
import { register } from '../actors/user-life.js';
import { ask } from '../client.js';

const FLOODER = '198.51.100.66';
const IN_FLIGHT = 154;
const CLIENTS = 4;
const SLICES = 4;
const MIN_KEPT = 0.8;

/**
 * One address keeps 154 logins in flight, with correct and with wrong passwords, and sends the next one after each response.
 * Slices with and without the flood alternate, so that a slow machine slows both.
 */
export default {
  name: 'login-flood',
  title: `one address keeps ${IN_FLIGHT} logins in flight, with right and with wrong passwords`,
  bounds: { errors: [], silenceMs: 5_000, slowestMs: 10_000 },
  prepare: ({ world }) => world.startReplicas({ BCRYPT_COST: '9', HASH_THREADS: '2' }, 1),
  async run({ world: { load, replicas }, seconds, expect }) {
    const users = [];
    while (users.length < CLIENTS) users.push(await register(load));
    const flooder = await register(load);
    const counts = { calm: 0, flooded: 0 };
    const statuses = new Map();
    for (let slice = 0; slice < SLICES; slice += 1) {
      counts.calm += await loginsOf(load, users, seconds);
      const flood = startFlood(replicas[0].url, flooder, statuses);
      counts.flooded += await loginsOf(load, users, seconds);
      await flood.stop();
    }
    const kept = counts.flooded / counts.calm;
    const told = `${counts.calm} logins without, ${counts.flooded} with the flood: ${kept.toFixed(2)}`;
    expect(kept >= MIN_KEPT, `clients at other addresses completed too few logins. ${told}`);
    const seen = [...statuses].map(([status, count]) => `${count} × ${status}`).join(', ');
    console.error(`login-flood: ${told}; the flooder got ${seen}`);
    expect(statuses.has(429), `the flooder was never answered 429: ${seen}`);
  },
};

/** @returns the number of logins that the users completed, each one at a time, in a number of seconds */
async function loginsOf(load, users, seconds) {
  let done = 0;
  const end = Date.now() + seconds * 1_000;
  const live = async (user) => {
    while (Date.now() < end) if (await logIn(load, user)) done += 1;
  };
  await Promise.all(users.map(live));
  return done;
}

function startFlood(url, flooder, statuses) {
  let isOver = false;
  const bodies = [flooder.password, flooder.password, 'a wrong one'].map((password) => ({
    email: flooder.email,
    password,
  }));
  const keepOne = async (index) => {
    const body = bodies[index % bodies.length];
    while (!isOver) {
      const { status } = await ask(url, { path: '/api/v0/auth/login', body, headers: { 'X-Forwarded-For': FLOODER } });
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
    }
  };
  const running = Array.from({ length: IN_FLIGHT }, (_, index) => keepOne(index));
  return {
    stop: () => {
      isOver = true;
      return Promise.all(running);
    },
  };
}
