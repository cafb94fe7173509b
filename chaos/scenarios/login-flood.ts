import { replaceSettings } from '../../tools/replace-settings.js';
import { logIn, loginOf } from '../actors/sessions.js';
import { registerNow } from '../actors/user-life.js';
import { send, type Answer } from '../client.js';
import type { User } from '../ledger.js';
import type { Load } from '../load.js';
import type { Scenario } from '../stage.js';

const FLOODER = '198.51.100.66';
const IN_FLIGHT = 154;
const CLIENTS = 4;
const SLICES = 4;
const MIN_KEPT = 0.8;

/** How often each status was answered. */
type Statuses = Map<Answer['status'], number>;

/**
 * One address keeps 154 logins in flight, with right and with wrong passwords. Slices with and without the flood
 * alternate, so that a slow machine slows both.
 */
export const loginFlood: Scenario = {
  name: 'login-flood',
  title: `one address keeps ${IN_FLIGHT} logins in flight, with right and with wrong passwords`,
  bounds: { errors: [], silenceMs: 5_000, slowestMs: 10_000 },
  async run(stage) {
    const variables = { BCRYPT_COST: '9', NODE_OPTIONS: replaceSettings({ hashThreads: 2 }) };
    const load = await stage.begin({ variables, replicas: 1 });
    const { url } = stage.world.replica(0);
    const users: User[] = [];
    while (users.length < CLIENTS) users.push(await registerNow(load));
    const flooder = await registerNow(load);
    const counts = { calm: 0, flooded: 0 };
    const statuses: Statuses = new Map();
    for (let slice = 0; slice < SLICES; slice += 1) {
      counts.calm += await countLogins(load, users, stage.seconds);
      const stopFlood = startFlood(url, flooder, statuses);
      counts.flooded += await countLogins(load, users, stage.seconds);
      await stopFlood();
    }
    const kept = counts.flooded / counts.calm;
    const told = `${counts.calm} logins without, ${counts.flooded} with the flood: ${kept.toFixed(2)}`;
    stage.expect(kept >= MIN_KEPT / stage.scale(1), `clients at other addresses completed too few logins. ${told}`);
    const seen = [...statuses].map(([status, count]) => `${count} × ${status}`).join(', ');
    console.error(`login-flood: ${told}; the flooder got ${seen}`);
    stage.expect(statuses.has(429), `the flooder was never answered 429: ${seen}`);
  },
};

/** @returns how many logins the users completed in the time, each user one at a time */
async function countLogins(load: Load, users: readonly User[], seconds: number): Promise<number> {
  let done = 0;
  const end = Date.now() + seconds * 1_000;
  const repeat = async (user: User): Promise<void> => {
    while (Date.now() < end) if (await logIn(load, user)) done += 1;
  };
  await Promise.all(users.map(repeat));
  return done;
}

/** @returns a function that ends the flood */
function startFlood(url: string, flooder: User, statuses: Statuses): () => Promise<unknown> {
  let isOver = false;
  const requests = [loginOf(flooder), loginOf(flooder), loginOf(flooder, 'a wrong one')];
  const headers = { 'X-Forwarded-For': FLOODER };
  const repeat = async (index: number): Promise<void> => {
    const request = requests[index % requests.length] ?? loginOf(flooder);
    while (!isOver) {
      const { status } = await send(url, { ...request, headers });
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
    }
  };
  const running = Array.from({ length: IN_FLIGHT }, (_, index) => repeat(index));
  return () => {
    isOver = true;
    return Promise.all(running);
  };
}
