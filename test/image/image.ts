// Builds the image of the Dockerfile with buildah. No registry of images is needed: the base is made of programs of this
// machine, and of the Node.js that the Dockerfile names, from npm.
import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readFileSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { arch } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { z } from 'zod';
import type { Cleanup } from '../../tools/cleanup.js';
import { makeTemporaryFolder } from '../../tools/postgres.js';

/** Of Debian's essential packages, what the Dockerfile and the checks run. */
const PROGRAMS = ['sh', 'env', 'cat', 'chmod', 'grep', 'id', 'ln', 'mkdir', 'rm', 'touch', 'tr'];
/** The npm of that Node.js, whose npm package has none. */
const NPM = 'npm@11';
const BASE = 'localhost/platform-auth-base';
const CERTIFICATES = '/etc/ssl/certs/ca-certificates.crt';

const inspected = z.object({
  Docker: z.object({
    config: z.object({
      User: z.string(),
      Env: z.array(z.string()),
      Cmd: z.array(z.string()),
      WorkingDir: z.string(),
      Healthcheck: z.object({ Test: z.tuple([z.literal('CMD')], z.string()) }),
    }),
  }),
});

export interface Image {
  /** Where its root file system is mounted. */
  readonly root: string;
  readonly user: string;
  readonly env: readonly string[];
  readonly command: readonly string[];
  readonly workingFolder: string;
  readonly healthCheck: readonly string[];
}

/** Builds and mounts the image. The cleanup removes it, and the base with it. */
export function buildImage(cleanup: Cleanup): Image {
  const folder = makeTemporaryFolder(cleanup, 'image');
  const storage = join(folder, 'storage');
  const buildah = (...words: string[]): string => {
    const places = ['--root', storage, '--runroot', join(folder, 'run'), '--storage-driver', 'overlay'];
    return execFileSync('buildah', [...places, ...words], { encoding: 'utf8', maxBuffer: 1e8 }).trim();
  };
  cleanup.defer(() => {
    buildah('rm', '--all');
    // The storage mounts this folder on itself, and may leave it so.
    spawnSync('umount', [join(storage, 'overlay')]);
  });
  const base = buildah('from', 'scratch');
  buildah('add', '--quiet', base, makeBase(join(folder, 'base')), '/');
  buildah('commit', '--quiet', '--rm', base, BASE);
  const cache = join(folder, 'npm-cache');
  cpSync(run('npm', 'config', 'get', 'cache'), cache, { recursive: true, filter: isLasting });
  const options = [
    '--quiet',
    '--format',
    'docker',
    '--isolation',
    'chroot',
    '--pull-never',
    '--volume',
    `${cache}:/root/.npm`,
  ];
  const image = buildah('build', ...options, '--build-arg', `BASE_IMAGE=${BASE}`, '.');
  const { config } = inspected.parse(JSON.parse(buildah('inspect', '--type', 'image', image))).Docker;
  const root = buildah('mount', buildah('from', '--pull-never', image));
  return {
    root,
    user: config.User,
    env: config.Env,
    command: config.Cmd,
    workingFolder: config.WorkingDir,
    healthCheck: config.Healthcheck.Test.slice(1),
  };
}

/** Whether a part of npm's cache stays while another npm uses it. */
const isLasting = (path: string): boolean => !['tmp', '_logs'].includes(basename(path));

/** @returns why no image can be built here */
export function findObstacle(): string | undefined {
  return process.getuid?.() === 0 ? undefined : 'only root mounts layers of images';
}

/** A root file system with what the official image of Node.js has and this one needs. */
function makeBase(folder: string): string {
  const [, version = ''] = /^# Node\.js (\S+) on Debian/m.exec(readFileSync('Dockerfile', 'utf8')) ?? [];
  const prefix = join(folder, 'usr/local');
  run('npm', 'install', '--global', '--prefix', prefix, `node-linux-${arch()}@${version}`, NPM);
  rmSync(join(prefix, 'lib/node_modules', `node-linux-${arch()}`, 'include'), { recursive: true });
  for (const name of ['bin', 'lib', 'lib64', 'sbin']) {
    mkdirSync(join(folder, 'usr', name), { recursive: true });
    symlinkSync(join('usr', name), join(folder, name));
  }
  for (const name of ['dev', 'etc', 'home/node', 'proc', 'root', 'tmp'])
    mkdirSync(join(folder, name), { recursive: true });
  const programs = PROGRAMS.map((name) => run('sh', '-c', 'command -v "$1"', 'sh', name));
  const libraries = run('dpkg', '-L', 'libc6')
    .split('\n')
    .filter((path) => /\/lib\/.*\.so/.test(path));
  const needed = [...programs, join(prefix, 'bin/node')].flatMap((path) => run('ldd', path).match(/\/\S+/g) ?? []);
  const files = [...programs, ...libraries, ...needed, '/etc/nsswitch.conf', CERTIFICATES].filter(existsSync);
  for (const file of new Set(files)) {
    mkdirSync(dirname(join(folder, file)), { recursive: true });
    cpSync(realpathSync(file), join(folder, file));
  }
  writeFileSync(join(folder, 'etc/passwd'), 'root:x:0:0::/root:/bin/sh\nnode:x:1000:1000::/home/node:/bin/sh\n');
  writeFileSync(join(folder, 'etc/group'), 'root:x:0:\nnode:x:1000:\n');
  writeFileSync(join(folder, 'root/.npmrc'), `prefer-offline=true\n${copySettings('registry', 'cafile')}`);
  return folder;
}

/** @returns the settings of this machine's npm, as lines */
function copySettings(...names: readonly string[]): string {
  const settings = names.map((name) => [name, run('npm', 'config', 'get', name)] as const);
  return settings.flatMap(([name, value]) => (value === 'null' ? [] : [`${name}=${value}\n`])).join('');
}

function run(program: string, ...words: string[]): string {
  return execFileSync(program, words, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] }).trim();
}
