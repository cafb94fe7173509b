// The minimal work of a route, without HTTP and without the service, in a process that takes orders over IPC
// (work-messages.ts).
import { createHmac, createSecretKey, hash, randomBytes, randomUUID, timingSafeEqual } from 'node:crypto';
import { Worker } from 'node:worker_threads';
import pg from 'pg';
import { RESERVE } from '../src/foundation/throttling/throttle-windows.js';
import { ROTATE } from '../src/domain/tokens/refresh-tokens.js';
import { measureCpuSince, repeatConcurrently } from './loops.js';
import type { Load } from './measure.js';
import { INSERT_SESSION, POOL_SIZE, READ_LIVE_SESSION, READ_NODE, READ_USER } from './statements.js';
import {
  signClaims,
  verifyAskingEachTime,
  verifyBareKeys,
  verifyRememberedKeys,
  verifyRememberedTokens,
  verifySignatures,
} from './verifier-loads.js';
import { bcryptCount, workOrder, workTasks, type Bearer, type WorkTask } from './work-messages.js';

const DAY_MS = 24 * 3_600_000;
/** Counts one call with a limit of a million points an hour. */
const ONE_CALL = [['bench:address'], [1_000_000], [3_600], [1], [0], []];
const key = createSecretKey(randomBytes(32));
const mac = (text: string): Buffer => createHmac('sha256', key).update(text).digest();
const digest = (text: string): Buffer => hash('sha256', text, 'buffer');
const openPool = (databaseUrl: string): pg.Pool => new pg.Pool({ connectionString: databaseUrl, max: POOL_SIZE });

/** Makes the load of each kind from the first message. */
const kinds: Readonly<Record<string, (message: unknown) => Load | Promise<Load>>> = {
  pg: (message) => readNodes(workTasks.pg.parse(message)),
  users: (message) => readUsers(workTasks.users.parse(message)),
  refresh: (message) => refreshSessions(workTasks.refresh.parse(message)),
  bcrypt: (message) => compareOnThreads(workTasks.bcrypt.parse(message)),
  bareKey: (message) => verifyBareKeys(workTasks.bareKey.parse(message)),
  rememberedKey: (message) => verifyRememberedKeys(workTasks.rememberedKey.parse(message)),
  rememberedToken: (message) => verifyRememberedTokens(workTasks.rememberedToken.parse(message)),
  askingKey: (message) => verifyAskingEachTime(workTasks.askingKey.parse(message)),
  es256: (message) => verifySignatures(workTasks.es256.parse(message)),
  signature: signClaims,
};

/** The read of validate-node, through the pool only. */
function readNodes({ databaseUrl, nodeIds }: WorkTask<'pg'>): Load {
  const pool = openPool(databaseUrl);
  return repeatConcurrently(nodeIds, async (id) => requireRow(await pool.query({ ...READ_NODE, values: [id] })));
}

/** Verifies a bearer's signature, and reads its session and user. */
function readUsers({ databaseUrl, bearers }: WorkTask<'users'>): Load {
  const pool = openPool(databaseUrl);
  const signed = bearers.map((bearer) => ({ ...bearer, signature: mac(bearer.token) }));
  return repeatConcurrently(signed, async ({ userId, sessionId, token, signature }) => {
    timingSafeEqual(signature, mac(token));
    await pool.query({ ...READ_LIVE_SESSION, values: [sessionId, userId, new Date()] });
    return requireRow(await pool.query({ ...READ_USER, values: [userId] }));
  });
}

/** Counts the call, rotates the session with both digests and the next token's HMAC, and signs the access token. */
async function refreshSessions({ databaseUrl, bearers }: WorkTask<'refresh'>): Promise<Load> {
  const pool = openPool(databaseUrl);
  const sessions = await Promise.all(bearers.map((bearer) => startSession(pool, bearer)));
  return repeatConcurrently(sessions, async (session) => {
    const now = new Date();
    await pool.query({ ...RESERVE, values: ONE_CALL });
    const next = mac(session.refreshToken).toString('base64url');
    const expiresAt = new Date(now.getTime() + DAY_MS);
    const values = [session.id, digest(session.refreshToken), digest(next), now, expiresAt, null, false];
    const rotated = await pool.query({ ...ROTATE, values });
    session.refreshToken = next;
    mac(session.accessToken).toString('base64url');
    return requireRow(rotated);
  });
}

interface WorkSession {
  readonly id: string;
  readonly accessToken: string;
  refreshToken: string;
}

async function startSession(pool: pg.Pool, { userId, token }: Bearer): Promise<WorkSession> {
  const session = { id: randomUUID(), accessToken: token, refreshToken: randomBytes(88).toString('base64url') };
  await pool.query(INSERT_SESSION, [session.id, userId, digest(session.refreshToken)]);
  return session;
}

/** @throws when the statement found nothing, because that is less work than the route's */
function requireRow({ rowCount }: pg.QueryResult): true {
  if (rowCount !== 1) throw new Error('a statement found nothing');
  return true;
}

/** Runs bcrypt only: one comparison after the other on each thread. */
function compareOnThreads({ passwordHash, threads }: WorkTask<'bcrypt'>): Load {
  return async (seconds) => {
    const before = process.cpuUsage();
    const done = await Promise.all(Array.from({ length: threads }, () => compareFor(seconds, passwordHash)));
    const cpu = measureCpuSince(before);
    const count = done.reduce((sum, one) => sum + one.count, 0);
    const throughput = done.reduce((sum, one) => sum + one.count / one.seconds, 0);
    return { throughput, cpu: cpu / count };
  };
}

function compareFor(seconds: number, passwordHash: string): Promise<{ count: number; seconds: number }> {
  return new Promise((resolve, reject) => {
    const thread = new Worker(new URL('./bcrypt-thread.js', import.meta.url), {
      workerData: { seconds, passwordHash },
    });
    thread.once('message', (message) => resolve(bcryptCount.parse(message))).once('error', reject);
  });
}

let load: Load | undefined;

async function answerTo(message: unknown): Promise<object> {
  if (load) return load(workOrder.parse(message).seconds);
  load = await kinds[process.argv[2] ?? '']?.(message);
  return { isReady: load !== undefined };
}

process.on('message', (message) => void answerTo(message).then((answer) => process.send?.(answer)));
