import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { claimPort } from '../tools/claim-port.js';
import type { Cleanup } from '../tools/cleanup.js';
import { makeTemporaryFolder } from '../tools/postgres.js';
import { Program } from '../tools/program.js';
import { isHealthy } from '../tools/server-process.js';

const POLL_INTERVAL_MS = 50;
const MAX_POLLS = 1_200;
const PROGRAM = ['haproxy', '/usr/sbin/haproxy'].find((path) => spawnSync(path, ['-v']).status === 0);

export const hasBalancer = PROGRAM !== undefined;

/**
 * Starts haproxy in front of the replicas, as in production: with health checks and keep-alive, and without retries.
 * @returns its URL; undefined when haproxy is not installed
 */
export async function startBalancer(cleanup: Cleanup, replicaPorts: readonly number[]): Promise<string | undefined> {
  if (PROGRAM === undefined) return undefined;
  const port = await claimPort();
  const file = join(makeTemporaryFolder(cleanup, 'haproxy'), 'haproxy.cfg');
  writeFileSync(file, configure(port, replicaPorts));
  const haproxy = Program.start(cleanup, PROGRAM, ['-db', '-q', '-f', file]);
  const url = `http://127.0.0.1:${port}`;
  for (let polls = 0; !(await isHealthy(url)); polls += 1) {
    if (haproxy.hasExited || polls === MAX_POLLS) throw new Error(`haproxy does not serve requests: ${haproxy.output}`);
    await sleep(POLL_INTERVAL_MS);
  }
  return url;
}

function configure(port: number, replicaPorts: readonly number[]): string {
  const servers = replicaPorts.map((replicaPort, index) => `  server r${index + 1} 127.0.0.1:${replicaPort} check`);
  return `defaults
  mode http
  timeout connect 1s
  timeout client 60s
  timeout server 20s
  timeout check 1500ms
  option forwardfor if-none
  option httpchk GET /health
  http-check expect status 200
  option redispatch
  retries 3
  default-server inter 250ms fall 2 rise 1

frontend service
  bind 127.0.0.1:${port}
  default_backend replicas

backend replicas
  balance roundrobin
${servers.join('\n')}
`;
}
