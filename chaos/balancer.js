import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { defer, assertNotStopping } from './cleanup.js';
import { ask, sleep } from './client.js';
import { freePort } from '../dist/src/embedded-postgres/free-port.js';

const PROGRAM = ['haproxy', '/usr/sbin/haproxy'].find((program) => spawnSync(program, ['-v']).status === 0);

export const hasBalancer = PROGRAM !== undefined;

/** Starts haproxy in front of the replicas, as in production: health checks, keep-alive, requests are not retried. */
export async function startBalancer(replicas) {
  const folder = mkdtempSync(join(tmpdir(), 'platform-auth-haproxy-'));
  defer(() => rmSync(folder, { recursive: true, force: true }));
  const port = await freePort();
  const file = join(folder, 'haproxy.cfg');
  writeFileSync(file, configuration(port, replicas));
  assertNotStopping();
  const child = spawn(PROGRAM, ['-db', '-q', '-f', file], { stdio: ['ignore', 'ignore', 'pipe'] });
  let said = '';
  child.stderr.on('data', (chunk) => (said += chunk));
  defer(async () => {
    if (child.exitCode === null && child.kill('SIGKILL')) await once(child, 'exit');
  });
  const url = `http://127.0.0.1:${port}`;
  for (let tries = 0; (await ask(url, { method: 'GET', path: '/health' })).status !== 200; tries += 1) {
    if (child.exitCode !== null || tries === 100) throw new Error(`haproxy does not serve requests: ${said}`);
    await sleep(50);
  }
  return url;
}

function configuration(port, replicas) {
  const servers = replicas.map((replica, index) => `  server r${index + 1} 127.0.0.1:${replica.port} check`);
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
