// Starts the configurations of deploy/gateways/ with the addresses of this machine. None of them needs root.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { claimPort } from '../../tools/claim-port.js';
import type { Cleanup } from '../../tools/cleanup.js';
import { eventually } from '../../tools/eventually.js';
import { Program } from '../../tools/program.js';
import { isResponding } from '../../tools/server-process.js';

const CONFIGURATIONS = 'deploy/gateways';

interface Setting {
  readonly cleanup: Cleanup;
  /** For the files of the programs. */
  readonly folder: string;
  readonly authPort: number;
  readonly upstreamPort: number;
}

export interface Gateway {
  readonly name: string;
  readonly port: number;
}

type Change = readonly [text: string, replacement: string];

/** @returns a configuration with the given places changed. @throws when a place is not there */
function read(file: string, changes: readonly Change[]): string {
  const text = readFileSync(join(CONFIGURATIONS, file), 'utf8');
  return changes.reduce((changed, [place, replacement]) => {
    if (!changed.includes(place)) throw new Error(`${file} has no ${place}`);
    return changed.replaceAll(place, replacement);
  }, text);
}

function write({ folder }: Setting, file: string, text: string): string {
  const path = join(folder, file);
  writeFileSync(path, text);
  return path;
}

const addresses = ({ authPort, upstreamPort }: Setting): readonly Change[] => [
  ['auth:7701', `127.0.0.1:${authPort}`],
  ['recipes:8080', `127.0.0.1:${upstreamPort}`],
];

async function start(setting: Setting, name: string, port: number, words: readonly string[]): Promise<Gateway> {
  const [path = '', ...flags] = words;
  const program = Program.start(setting.cleanup, path, flags);
  await eventually(`${name} listens`, () => {
    if (program.hasExited) throw new Error(`${name} has exited: ${program.output}`);
    return isResponding(`http://127.0.0.1:${port}/`);
  });
  return { name, port };
}

export async function startNginx(setting: Setting): Promise<Gateway> {
  const port = await claimPort();
  const site = write(
    setting,
    'nginx-site.conf',
    read('nginx.conf', [...addresses(setting), ['listen 8080', `listen 127.0.0.1:${port}`]]),
  );
  const folders = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (name) => `${name}_temp_path ${setting.folder}/nginx-${name};`,
  );
  const main = write(
    setting,
    'nginx.conf',
    `daemon off; master_process off; pid ${setting.folder}/nginx.pid; error_log stderr;
     events {} http { access_log off; ${folders.join(' ')} include ${site}; }`,
  );
  return start(setting, 'nginx', port, ['nginx', '-p', setting.folder, '-e', 'stderr', '-c', main]);
}

export async function startCaddy(setting: Setting): Promise<Gateway> {
  const port = await claimPort();
  const changes: readonly Change[] = [
    ...addresses(setting),
    [':8080 {', `:${port} {\n\tbind 127.0.0.1`],
    ['\tservers {', '\tadmin off\n\tservers {'],
  ];
  const file = write(setting, 'Caddyfile', read('Caddyfile', changes));
  const home = join(setting.folder, 'caddy');
  mkdirSync(home, { recursive: true });
  const variables = [`HOME=${home}`, `XDG_CONFIG_HOME=${home}`, `XDG_DATA_HOME=${home}`];
  const words = ['env', ...variables, 'caddy', 'run', '--config', file, '--adapter', 'caddyfile'];
  return start(setting, 'Caddy', port, words);
}

export async function startHaproxy(setting: Setting): Promise<Gateway> {
  const [port, inner] = [await claimPort(), await claimPort()];
  const innerAddress: Change = ['127.0.0.1:7790', `127.0.0.1:${inner}`];
  const script = write(setting, 'platform-auth.lua', read('platform-auth.lua', [innerAddress]));
  const changes: readonly Change[] = [
    ...addresses(setting),
    innerAddress,
    ['bind :8080', `bind 127.0.0.1:${port}`],
    ['/etc/haproxy/platform-auth.lua', script],
  ];
  const file = write(setting, 'haproxy.cfg', read('haproxy.cfg', changes));
  return start(setting, 'HAProxy', port, ['haproxy', '-db', '-f', file]);
}
