// A Kubernetes without nodes: kube-apiserver from its Go module, and Debian's etcd. Objects are judged and stored as in a
// cluster; nothing runs.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { request } from 'node:https';
import { join, resolve } from 'node:path';
import { text as readText } from 'node:stream/consumers';
import { claimPort } from '../../tools/claim-port.js';
import type { Cleanup } from '../../tools/cleanup.js';
import { eventually } from '../../tools/eventually.js';
import { downloadGoModule, runGo } from '../../tools/go-modules.js';
import { makePassword, makeTemporaryFolder } from '../../tools/postgres.js';
import { Program } from '../../tools/program.js';

const MODULE = 'k8s.io/kubernetes';
const VERSION = 'v1.36.3';
const START_TIMEOUT_MS = 120_000;

interface Answer {
  readonly status: number;
  readonly body: unknown;
}

/** Builds kube-apiserver once, in five to ten minutes, and keeps it in node_modules/.cache. @returns its path */
function buildApiServer(): string {
  const folder = resolve('node_modules/.cache', `kube-apiserver-${VERSION}`);
  const program = join(folder, 'kube-apiserver');
  if (existsSync(program)) return program;
  mkdirSync(folder, { recursive: true });
  const manifest = readFileSync(join(downloadGoModule(MODULE, VERSION), 'go.mod'), 'utf8');
  const [, go = ''] = /^go (\S+)$/m.exec(manifest) ?? [];
  // The module replaces its own parts by folders, which only its own repository has.
  const parts = [...manifest.matchAll(/^\s+(\S+) => \.\/staging/gm)].map(
    ([, name]) => `replace ${name} => ${name} ${VERSION.replace('v1.', 'v0.')}`,
  );
  writeFileSync(
    join(folder, 'go.mod'),
    ['module apiserver', `go ${go}`, `require ${MODULE} ${VERSION}`, ...parts, ''].join('\n'),
  );
  console.error(`Building kube-apiserver ${VERSION}, only the first time …`);
  const flags = ['-mod=mod', '-trimpath', '-ldflags', `-s -w -X k8s.io/component-base/version.gitVersion=${VERSION}`];
  runGo(['-C', folder, 'build', ...flags, '-o', program, `${MODULE}/cmd/kube-apiserver`]);
  return program;
}

export class ApiServer {
  private constructor(
    private readonly port: number,
    private readonly token: string,
    private readonly certificate: string,
    /** For Helm. */
    readonly kubeconfig: string,
  ) {}

  /** The cleanup stops it and removes its data. */
  static async start(cleanup: Cleanup): Promise<ApiServer> {
    const program = buildApiServer();
    const folder = makeTemporaryFolder(cleanup, 'cluster');
    const [port, token] = [await claimPort(), makePassword()];
    const etcd = await startEtcd(cleanup, folder);
    const key = join(folder, 'service-accounts.key');
    execFileSync('openssl', ['genrsa', '-out', key, '2048'], { stdio: 'pipe' });
    writeFileSync(join(folder, 'tokens.csv'), `${token},admin,admin,system:masters\n`, { mode: 0o600 });
    const running = Program.start(
      cleanup,
      program,
      toFlags({
        'etcd-servers': etcd,
        'cert-dir': folder,
        'bind-address': '127.0.0.1',
        'secure-port': port,
        'service-account-key-file': key,
        'service-account-signing-key-file': key,
        'service-account-issuer': 'https://kubernetes.default.svc',
        'token-auth-file': join(folder, 'tokens.csv'),
        'authorization-mode': 'RBAC',
        'service-cluster-ip-range': '10.0.0.0/24',
      }),
    );
    const kubeconfig = join(folder, 'kubeconfig.json');
    writeFileSync(kubeconfig, JSON.stringify(toKubeconfig(port, token, folder)), { mode: 0o600 });
    const isReady = async (): Promise<boolean> => {
      if (running.hasExited) throw new Error(running.output);
      if (!existsSync(join(folder, 'apiserver.crt'))) return false;
      const server = new ApiServer(port, token, readFileSync(join(folder, 'apiserver.crt'), 'utf8'), kubeconfig);
      return server.send('GET', '/readyz').then(
        ({ status }) => status === 200,
        () => false,
      );
    };
    await eventually('kube-apiserver is ready', isReady, START_TIMEOUT_MS);
    return new ApiServer(port, token, readFileSync(join(folder, 'apiserver.crt'), 'utf8'), kubeconfig);
  }

  async send(method: string, path: string, body?: unknown, type = 'application/json'): Promise<Answer> {
    const headers = { authorization: `Bearer ${this.token}`, 'content-type': type };
    const options = { host: '127.0.0.1', port: this.port, method, path, headers, ca: this.certificate };
    return new Promise((answer, reject) => {
      request(options, (response) => {
        const toBody = (text: string): unknown =>
          response.headers['content-type']?.includes('json') ? JSON.parse(text) : text;
        readText(response).then((text) => answer({ status: response.statusCode ?? 0, body: toBody(text) }), reject);
      })
        .on('error', reject)
        .end(body === undefined ? undefined : JSON.stringify(body));
    });
  }

  /** @throws with the answer when it is not a success */
  async ask(method: string, path: string, body?: unknown, type?: string): Promise<unknown> {
    const answer = await this.send(method, path, body, type);
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${JSON.stringify(answer)}`);
    return answer.body;
  }
}

async function startEtcd(cleanup: Cleanup, folder: string): Promise<string> {
  const [clients, peers] = [`http://127.0.0.1:${await claimPort()}`, `http://127.0.0.1:${await claimPort()}`];
  const words = toFlags({
    'data-dir': join(folder, 'etcd'),
    'listen-client-urls': clients,
    'advertise-client-urls': clients,
    'listen-peer-urls': peers,
    'initial-advertise-peer-urls': peers,
    'initial-cluster': `default=${peers}`,
  });
  const etcd = Program.start(cleanup, 'etcd', words);
  await eventually('etcd is healthy', async () => {
    if (etcd.hasExited) throw new Error(etcd.output);
    return fetch(`${clients}/health`).then(
      ({ ok }) => ok,
      () => false,
    );
  });
  return clients;
}

function toKubeconfig(port: number, token: string, folder: string): object {
  const cluster = { server: `https://127.0.0.1:${port}`, 'certificate-authority': join(folder, 'apiserver.crt') };
  return {
    'current-context': 'test',
    contexts: [{ name: 'test', context: { cluster: 'test', user: 'test' } }],
    clusters: [{ name: 'test', cluster }],
    users: [{ name: 'test', user: { token } }],
  };
}

function toFlags(values: Readonly<Record<string, string | number>>): string[] {
  return Object.entries(values).map(([name, value]) => `--${name}=${value}`);
}
