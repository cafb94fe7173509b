import { deepStrictEqual, match } from 'node:assert/strict';
import { execFileSync, spawnSync, type ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chmodSync, chownSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseAllDocuments } from 'yaml';
import { z } from 'zod';
import type { Checks } from '../../tools/checks.js';
import { claimPort } from '../../tools/claim-port.js';
import type { Cleanup } from '../../tools/cleanup.js';
import { eventually } from '../../tools/eventually.js';
import { makePassword, makeTemporaryFolder, startPostgres, withClient, UNSAFE } from '../../tools/postgres.js';
import { untilVerdict } from '../../tools/repeat-while.js';
import { findPod, Helm, type Pod, type Secrets } from '../kubernetes/chart.js';
import { Container } from './container.js';
import type { Image } from './image.js';

const PROGRAM = 'dist/service/platform-auth.js';
const START_TIMEOUT_MS = 120_000;
/** Fails on each line that works and should not. */
const INSPECT = `id -u; id -g
for file in /app/dist/x /app/node_modules/x /tmp/x /etc/platform-auth/x; do touch "$file" 2>&1 && echo written; done
grep -E '^(CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status | tr -d '\\t'`;

const operator = z.object({ api_key: z.string() });
const secret = z.object({
  kind: z.literal('Secret'),
  metadata: z.looseObject({ name: z.string() }),
  data: z.record(z.string(), z.string()),
});

interface Database {
  readonly ownerUrl: string;
  readonly serviceUrl: string;
  readonly certificate: string;
}

/** A PostgreSQL with TLS by an authority of its own, and the two roles of docs/audit.md. */
async function startDatabase(cleanup: Cleanup): Promise<Database> {
  const server = await startPostgres({ cleanup, purpose: 'kubernetes-database', settings: UNSAFE });
  const [file, key] = [join(server.folder, 'server.crt'), join(server.folder, 'server.key')];
  const kind = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];
  const names = ['-subj', '/CN=database', '-days', '2', '-addext', 'subjectAltName=IP:127.0.0.1'];
  execFileSync('openssl', ['req', '-x509', ...kind, ...names, '-keyout', key, '-out', file], { stdio: 'pipe' });
  const { uid, gid } = statSync(server.folder);
  for (const path of [file, key]) {
    chownSync(path, uid, gid);
    chmodSync(path, 0o600);
  }
  const password = makePassword();
  await withClient(server.url(), async (client) => {
    await client.query('ALTER SYSTEM SET ssl = on');
    await client.query('SELECT pg_reload_conf()');
    await client.query(`CREATE ROLE auth_service LOGIN PASSWORD '${password}'`);
    await client.query('CREATE DATABASE auth');
  });
  const serviceUrl = new URL(server.url('auth'));
  [serviceUrl.username, serviceUrl.password] = ['auth_service', password];
  return { ownerUrl: server.url('auth'), serviceUrl: serviceUrl.href, certificate: readFileSync(file, 'utf8') };
}

async function isAnswering(url: string, wanted: number): Promise<boolean> {
  const status = await fetch(url).then(
    (response) => response.status,
    () => undefined,
  );
  return status === wanted;
}

interface Running {
  readonly child: ChildProcess;
  /** URL of each port, by its name. */
  readonly urls: Readonly<Record<string, string>>;
}

async function startService(container: Container, pod: Pod): Promise<Running> {
  const [{ ports, startupProbe, readinessProbe }] = pod.containers;
  const urls = Object.fromEntries(ports.map(({ name, containerPort }) => [name, `http://127.0.0.1:${containerPort}`]));
  const child = container.start();
  for (const probe of [startupProbe, readinessProbe]) {
    const { path = '', port = '' } = probe?.httpGet ?? {};
    await eventually(
      `the pod passes its probe ${path}`,
      async () => {
        if (child.exitCode !== null) throw new Error(`The service ended with ${child.exitCode}`);
        return isAnswering(`${urls[port]}${path}`, 200);
      },
      START_TIMEOUT_MS,
    );
  }
  return { child, urls };
}

/** The steps of docs/operations/kubernetes.md with its map: an operator, one Secret a service, a validated key. */
async function expectValidated({ urls }: Running, container: Container, folder: string): Promise<void> {
  const [, map = ''] =
    /^```yaml\n(services:.+?)^```$/ms.exec(readFileSync('docs/operations/kubernetes.md', 'utf8')) ?? [];
  const [mapFile, keyFile] = [join(folder, 'platform.yaml'), join(folder, 'operator.key')];
  writeFileSync(mapFile, map);
  const issue = ['operators', 'issue', 'ci', '--scopes', 'apps', '--json'];
  const issued = container.exec('platform-auth', ...issue);
  deepStrictEqual(issued.status, 0, issued.stderr);
  writeFileSync(keyFile, operator.parse(JSON.parse(issued.stdout)).api_key);
  const apply = ['apply', '--map', mapFile, '--url', urls.internal ?? '', '--to', 'kubernetes', '--yes'];
  const env = { PATH: process.env.PATH, ADMIN_API_KEY_FILE: keyFile };
  const applied = spawnSync(process.execPath, [PROGRAM, ...apply], { env, encoding: 'utf8' });
  deepStrictEqual(applied.status, 0, applied.stderr);
  const manifests = parseAllDocuments(applied.stdout).map((document) => secret.parse(document.toJS()));
  deepStrictEqual(manifests.map(({ metadata }) => metadata.name).sort(), ['ocr-env', 'recipes-env']);
  const data = manifests.find(({ metadata }) => metadata.name === 'recipes-env')?.data ?? {};
  const read = (name: string): string => Buffer.from(data[name] ?? '', 'base64').toString();
  const headers = {
    'X-Platform-App-Id': read('OCR_APP_ID'),
    'X-Platform-App-Key': read('OCR_APP_KEY'),
    'X-Platform-Target': 'ocr',
  };
  const ask = (url = ''): Promise<Response> =>
    untilVerdict(() => fetch(`${url}/internal/validate-app`, { method: 'POST', headers }));
  deepStrictEqual([(await ask(urls.internal)).status, (await ask(urls.public)).status], [200, 404]);
}

/** Runs the Job of the migration and the pod of the service, as the chart renders them for a database with its own authority. */
export async function checkPods(checks: Checks, cleanup: Cleanup, image: Image): Promise<void> {
  const values = {
    image: { repository: 'registry.example.org/platform-auth' },
    secrets: { existingSecret: 'auth' },
    database: { existingSecret: 'auth-database', caSecret: 'database-ca' },
    migration: { mode: 'job', existingSecret: 'auth-owner' },
    config: { HOST: '127.0.0.1', SHUTDOWN_DELAY_MS: 0 },
    ports: { public: await claimPort(), internal: await claimPort(), metrics: await claimPort() },
  };
  const objects = new Helm().renderValues(JSON.stringify(values));
  const [job, pod] = [findPod(objects, 'Job'), findPod(objects, 'Deployment')];
  if (!job || !pod) throw new Error('The Job or the Deployment is missing.');
  const database = await startDatabase(cleanup);
  const makeSecret = (): string => randomBytes(32).toString('hex');
  const keys = {
    SECRET_KEY: makeSecret(),
    MASTER_KEY: makeSecret(),
    AUDIT_SEAL_KEY: makeSecret(),
    ADMIN_API_KEY: makeSecret(),
  };
  const secrets: Secrets = {
    auth: keys,
    'auth-database': { DATABASE_URL: database.serviceUrl },
    'auth-owner': { DATABASE_URL: database.ownerUrl },
    'database-ca': { 'ca.crt': database.certificate },
  };
  const container = Container.make(cleanup, image, pod, secrets);
  await checks.run('a pod runs as user 1000, without capabilities, and writes nothing', () => {
    const { stdout, stderr } = container.run(['sh', '-c', INSPECT]);
    match(
      stdout,
      /^1000\n1000\n(touch: .*Read-only file system\n){4}CapEff:0+\nCapBnd:0+\nNoNewPrivs:1\nSeccomp:2\n$/,
      stderr,
    );
  });
  await checks.run('the Job of the migration runs to its end, also as a user that OpenShift assigns', () => {
    const asAssigned = { ...job, securityContext: {} };
    const { status, stdout, stderr } = Container.make(cleanup, image, asAssigned, secrets).run();
    deepStrictEqual(status, 0, stdout + stderr);
  });
  await checks.run(
    'the pod gets ready by its probes, validates a key inside, stops with 0, and used TLS only',
    async () => {
      const running = await startService(container, pod);
      const health = container.exec(...image.healthCheck);
      deepStrictEqual(health.status, 0, health.stderr);
      await expectValidated(running, container, makeTemporaryFolder(cleanup, 'kubernetes-map'));
      match(await (await fetch(`${running.urls.metrics}/metrics`)).text(), /^platform_auth_database_up 1$/m);
      const { rows } = await withClient(database.ownerUrl, (client) =>
        client.query<{ ssl: boolean }>(
          "SELECT DISTINCT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE usename = 'auth_service'",
        ),
      );
      deepStrictEqual(rows, [{ ssl: true }]);
      deepStrictEqual(await container.stop(running.child), 0);
    },
  );
}
