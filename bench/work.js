// What a route needs, without HTTP and without the service: `node bench/work.js pg|users|refresh|bcrypt`, over IPC.
// The first message is the task; each other one has it done for so many seconds.
import { createHmac, createSecretKey, hash, randomBytes, randomUUID, timingSafeEqual } from 'node:crypto';
import { Worker } from 'node:worker_threads';
import pg from 'pg';
import { ROTATE } from '../dist/src/tokens/session-statements.js';
import { CONNECTIONS, IS_LIVE, POOL_SIZE, percentile, READ_NODE, READ_USER, SPEND } from './shared.js';

const key = createSecretKey(randomBytes(32));
const mac = (text) => createHmac('sha256', key).update(text).digest();
const digest = (text) => hash('sha256', text, 'buffer');
const DAY_MS = 86_400_000;

const kinds = {
  /** The read of validate-node, through the pool alone. */
  pg: async ({ databaseUrl, nodes }) => {
    const pool = new pg.Pool({ connectionString: databaseUrl, max: POOL_SIZE });
    return fromMany(async (connection) => {
      return (await pool.query({ ...READ_NODE, values: [nodes[connection].node_id] })).rows[0];
    });
  },

  /** A bearer's signature, its session, the user. */
  users: async ({ databaseUrl, bearers }) => {
    const pool = new pg.Pool({ connectionString: databaseUrl, max: POOL_SIZE });
    const signatures = bearers.map(({ token }) => mac(token));
    return fromMany(async (connection) => {
      const { userId, sessionId, token } = bearers[connection];
      timingSafeEqual(signatures[connection], mac(token));
      await pool.query({ ...IS_LIVE, values: [sessionId, userId, new Date()] });
      return (await pool.query({ ...READ_USER, values: [userId] })).rows[0];
    });
  },

  /** A count, the rotation with both digests and the next token's HMAC, the access token's signature. */
  refresh: async ({ databaseUrl, bearers }) => {
    const pool = new pg.Pool({ connectionString: databaseUrl, max: POOL_SIZE });
    const sessions = await Promise.all(bearers.map(({ userId }) => newSession(pool, userId)));
    return fromMany(async (connection) => {
      const now = new Date();
      const expire = now.getTime() + 3_600_000;
      await pool.query({ ...SPEND, values: ['bench:address', 1, expire, now.getTime()] });
      const session = sessions[connection];
      const next = mac(session.token).toString('base64url');
      const expiresAt = new Date(now.getTime() + DAY_MS);
      const values = [session.id, digest(session.token), digest(next), now, expiresAt];
      const { rows } = await pool.query({ ...ROTATE, values });
      session.token = next;
      mac(bearers[connection].token).toString('base64url');
      return rows[0];
    });
  },

  /** Nothing but bcrypt, one comparison after the other on each thread, at the priority that the service's threads have. */
  bcrypt:
    async ({ passwordHash, threads }) =>
    async (seconds) => {
      const { user, system } = process.cpuUsage();
      const done = await Promise.all(Array.from({ length: threads }, () => compareFor(seconds, passwordHash)));
      const cpu = process.cpuUsage({ user, system });
      const count = done.reduce((sum, one) => sum + one.count, 0);
      const throughput = done.reduce((sum, one) => sum + one.count / one.seconds, 0);
      return { throughput, cpu: (cpu.user + cpu.system) / count };
    },
};

async function newSession(pool, userId) {
  const session = { id: randomUUID(), token: randomBytes(88).toString('base64url') };
  await pool.query(
    `INSERT INTO sessions (id, user_id, token_digest, generation, rotated_at, expires_at, absolute_expires_at, created_at)
     VALUES ($1, $2, $3, 0, now(), now() + interval '1 day', now() + interval '1 day', now())`,
    [session.id, userId, digest(session.token)],
  );
  return session;
}

/** As many at once as the service has connections. */
function fromMany(once) {
  return async (seconds) => {
    const startedAt = performance.now();
    const before = process.cpuUsage();
    const latencies = [];
    const repeat = async (connection) => {
      for (let from = performance.now(); from - startedAt < seconds * 1_000;) {
        if (!(await once(connection))) throw new Error('a statement found nothing');
        const now = performance.now();
        latencies.push(now - from);
        from = now;
      }
    };
    await Promise.all(Array.from({ length: CONNECTIONS }, (_, connection) => repeat(connection)));
    const took = (performance.now() - startedAt) / 1_000;
    const { user, system } = process.cpuUsage(before);
    return {
      throughput: latencies.length / took,
      p50: percentile(latencies, 0.5),
      p99: percentile(latencies, 0.99),
      cpu: (user + system) / latencies.length,
    };
  };
}

function compareFor(seconds, passwordHash) {
  const code = `
    import { setPriority } from 'node:os';
    import { parentPort, workerData } from 'node:worker_threads';
    import bcrypt from 'bcrypt';
    if (process.platform === 'linux') setPriority(10);
    const startedAt = performance.now();
    let count = 0;
    const elapsed = () => (performance.now() - startedAt) / 1_000;
    for (; elapsed() < workerData.seconds; count += 1) bcrypt.compareSync('a password', workerData.passwordHash);
    parentPort.postMessage({ count, seconds: elapsed() });`;
  const url = new URL(
    `data:text/javascript,${encodeURIComponent(code.replace("'bcrypt'", `'${import.meta.resolve('bcrypt')}'`))}`,
  );
  return new Promise((resolve, reject) => {
    new Worker(url, { workerData: { seconds, passwordHash } }).once('message', resolve).once('error', reject);
  });
}

let work;
process.on('message', async (message) => {
  if (work) process.send(await work(message.seconds));
  else process.send({ isReady: Boolean((work = await kinds[process.argv[2]](message))) });
});
