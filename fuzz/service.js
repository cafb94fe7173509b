import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { EmbeddedPostgres } from '../dist/src/embedded-postgres/embedded-postgres.js';
import { freePort } from '../dist/src/embedded-postgres/free-port.js';

const START_TIMEOUT_MS = 30_000;
const LAST_LINES = 20;
/** Otherwise the fuzzer, which sends from one address, would soon be answered only 429. */
const NO_THROTTLES = Object.fromEntries(
  [
    ...['LOGIN_LIMIT_PER_ACCOUNT_AND_ADDRESS', 'LOGIN_LIMIT_PER_ACCOUNT', 'LOGIN_LIMIT_PER_ADDRESS'],
    ...['REGISTRATION_LIMIT_PER_ADDRESS', 'REFRESH_LIMIT_PER_ADDRESS'],
    ...['HASHING_BUSY_LIMIT_PER_ADDRESS', 'ADMIN_KEY_LIMIT_PER_ADDRESS'],
  ].map((name) => [name, '9999999/1']),
);

/**
 * Starts the built service in a separate process, with a separate PostgreSQL.
 * @param variables added to its environment
 * @param onLine called with each line of its stdout and stderr
 */
export async function startService(variables = {}, onLine = () => undefined) {
  const database = await EmbeddedPostgres.start({
    folder: mkdtempSync(join(tmpdir(), 'platform-auth-fuzz-')),
    makePassword: () => randomBytes(16).toString('hex'),
    settings: { fsync: 'off' },
  });
  const secrets = { SECRET_KEY: randomBytes(32).toString('hex'), ADMIN_API_KEY: randomBytes(32).toString('hex') };
  const port = await freePort();
  const child = spawn(process.execPath, ['dist/src/main.js'], {
    env: {
      PATH: process.env.PATH,
      NODE_ENV: 'production',
      HOST: '127.0.0.1',
      PORT: String(port),
      DATABASE_URL: database.url(),
      SHUTDOWN_DELAY_MS: '0',
      ...NO_THROTTLES,
      ...secrets,
      ...variables,
    },
  });
  const lastLines = [];
  for (const stream of [child.stdout, child.stderr]) {
    createInterface({ input: stream }).on('line', (line) => {
      lastLines.push(line);
      if (lastLines.length > LAST_LINES) lastLines.shift();
      onLine(line);
    });
  }
  const service = {
    url: `http://127.0.0.1:${port}`,
    port,
    adminKey: secrets.ADMIN_API_KEY,
    secrets: [...Object.values(secrets), new URL(database.url()).password],
    lastLines,
    hasExited: () => child.exitCode !== null || child.signalCode !== null,
    residentMegabytes: () => residentMegabytes(child.pid),
    cpuMilliseconds: () => cpuMilliseconds(child.pid),
    stop: async () => {
      child.kill('SIGKILL');
      await database.remove();
    },
  };
  try {
    await ready(service);
    return service;
  } catch (error) {
    await service.stop();
    throw error;
  }
}

async function ready({ url, hasExited, lastLines }) {
  for (const deadline = Date.now() + START_TIMEOUT_MS; Date.now() < deadline && !hasExited(); await sleep(50)) {
    const health = await fetch(`${url}/health`).catch(() => undefined);
    await health?.body?.cancel();
    if (health?.ok) return;
  }
  throw new Error(`The service did not start:\n${lastLines.join('\n')}`);
}

/** @returns the resident memory of a process; undefined without /proc */
function residentMegabytes(pid) {
  try {
    const [, kilobytes] = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'));
    return Math.round(Number(kilobytes) / 1024);
  } catch {
    return undefined;
  }
}

/** @returns the CPU time of all threads of a process; NaN without /proc */
function cpuMilliseconds(pid) {
  try {
    const threads = readdirSync(`/proc/${pid}/task`);
    const times = threads.map((thread) => readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ')[0]);
    return times.reduce((sum, nanoseconds) => sum + Number(nanoseconds) / 1e6, 0);
  } catch {
    return NaN;
  }
}
