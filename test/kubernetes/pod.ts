// Runs the container of a rendered pod without a cluster: the command of the image, as the user of the pod, without
// privileges, in a root file system that holds what the image would hold and is mounted read-only. Needs to be root, or user
// namespaces.
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  cpSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  readlinkSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import type { Variables } from '../../src/foundation/config/environment.js';
import type { Cleanup } from '../../tools/cleanup.js';
import { makeTemporaryFolder } from '../../tools/postgres.js';
import type { Pod } from './chart.js';

/** The Secrets of a cluster: the values of their keys. */
export type Secrets = Readonly<Record<string, Readonly<Record<string, string>>>>;

const SYSTEM_FOLDERS = ['usr', 'bin', 'sbin', 'lib', 'lib64'];
const SYSTEM_FILES = ['dev/null', 'dev/urandom'];
const isRoot = process.getuid?.() === 0;

/** @returns what the container of a pod gets: variables, and the content of files by path */
export function resolvePod({ containers: [{ env, volumeMounts }], volumes }: Pod, secrets: Secrets) {
  const variables = Object.fromEntries(env.map(({ name, value }) => [name, value]));
  const files = volumeMounts.flatMap(({ name, mountPath }) => {
    const secret = volumes.find((volume) => volume.name === name)?.secret;
    return (secret?.items ?? []).map(({ key, path }) => {
      const content = secrets[secret?.secretName ?? '']?.[key];
      if (content === undefined) throw new Error(`The Secret ${secret?.secretName} has no ${key}.`);
      return { path: join(mountPath, path), content, mode: secret?.defaultMode ?? 0 };
    });
  });
  return { variables, files };
}

/** @returns the command of the image, by the Dockerfile */
export function readImageCommand(): string[] {
  const [, words = ''] =
    /^CMD (\[.*\])$/m.exec(
      readFileSync('Dockerfile', 'utf8')
        .split(/^FROM /m)
        .at(-1) ?? '',
    ) ?? [];
  return JSON.parse(words) as string[];
}

export class Sandbox {
  private constructor(
    private readonly cleanup: Cleanup,
    private readonly root: string,
    private readonly pod: Pod,
    private readonly variables: Variables,
  ) {}

  static make(cleanup: Cleanup, pod: Pod, secrets: Secrets): Sandbox {
    const root = makeTemporaryFolder(cleanup, 'pod');
    const { variables, files } = resolvePod(pod, secrets);
    const make = (path: string, content: string): void => {
      mkdirSync(dirname(join(root, path)), { recursive: true });
      writeFileSync(join(root, path), content);
    };
    for (const name of SYSTEM_FOLDERS) {
      if (lstatSync(`/${name}`).isSymbolicLink()) symlinkSync(readlinkSync(`/${name}`), join(root, name));
      else mkdirSync(join(root, name));
    }
    for (const name of SYSTEM_FILES) make(name, '');
    for (const name of ['proc', 'tmp', 'app/node_modules', 'app/dist'])
      mkdirSync(join(root, name), { recursive: true });
    make('opt/node', '');
    make('etc/passwd', 'node:x:1000:1000::/home/node:/bin/sh\n');
    make('etc/hosts', '127.0.0.1 localhost\n');
    for (const name of ['package.json', 'platform.yaml']) cpSync(name, join(root, 'app', name));
    for (const name of ['service', 'docs'])
      cpSync(join('dist', name), join(root, 'app/dist', name), { recursive: true });
    for (const { path, content, mode } of files) {
      make(path, content);
      if (isRoot) chownSync(join(root, path), 0, pod.securityContext.runAsGroup);
      chmodSync(join(root, path), mode);
    }
    return new Sandbox(cleanup, root, pod, variables);
  }

  /** @returns why a sandbox cannot be made here */
  static findObstacle(): string | undefined {
    const words = isRoot ? ['--mount'] : ['--user', '--map-root-user', '--mount'];
    const { status, error, stderr } = spawnSync('unshare', [...words, 'mount', '--bind', '/', '/'], {
      encoding: 'utf8',
    });
    return status === 0 ? undefined : (error?.message ?? stderr.trim());
  }

  /** Starts the command of the container, or that of the image. The cleanup kills it. */
  start(command = this.pod.containers[0].command ?? readImageCommand()): ChildProcess {
    const [program = '', ...words] = this.toHostCommand(command);
    const child = spawn(program, words, { env: this.environment, stdio: ['ignore', 'inherit', 'inherit'] });
    this.cleanup.defer(async () => {
      if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
      child.kill('SIGKILL');
      await once(child, 'exit');
    });
    return child;
  }

  /** Runs a command of the container to its end. */
  run(command = this.pod.containers[0].command ?? readImageCommand()) {
    const [program = '', ...words] = this.toHostCommand(command);
    return spawnSync(program, words, { env: this.environment, encoding: 'utf8' });
  }

  private get environment(): NodeJS.ProcessEnv {
    return { ...this.variables, PATH: '/usr/sbin:/usr/bin:/sbin:/bin' };
  }

  private toHostCommand(command: readonly string[]): string[] {
    const { runAsUser: uid, runAsGroup: gid } = this.pod.securityContext;
    const unshare = isRoot
      ? ['unshare', '--mount']
      : ['unshare', '--user', `--map-user=${uid}`, `--map-group=${gid}`, '--keep-caps', '--mount'];
    const user = isRoot ? [`--reuid=${uid}`, `--regid=${gid}`, '--clear-groups'] : ['--ambient-caps=-all'];
    const drop = ['setpriv', ...user, '--no-new-privs', '--bounding-set=-all', '--inh-caps=-all'];
    const node = command[0] === 'node' ? ['/opt/node', ...command.slice(1)] : command;
    return [...unshare, 'sh', '-ec', this.toMounts(), 'sh', ...drop, 'env', '-C', '/app', ...node];
  }

  /** @returns the script that makes the root file system and runs its arguments in it */
  private toMounts(): string {
    const folders = SYSTEM_FOLDERS.filter((name) => !lstatSync(`/${name}`).isSymbolicLink());
    const binds = [
      ...[...folders, ...SYSTEM_FILES].map((name) => [`/${name}`, name] as const),
      [process.execPath, 'opt/node'],
      [resolve('node_modules'), 'app/node_modules'],
    ] as const;
    return [
      `mount --bind '${this.root}' '${this.root}'`,
      ...binds.map(([from, to]) => `mount --bind '${from}' '${join(this.root, to)}'`),
      `mount --rbind /proc '${join(this.root, 'proc')}'`,
      ...['', 'app/node_modules'].map((name) => `mount -o remount,bind,ro '${join(this.root, name)}'`),
      `exec chroot '${this.root}' "$@"`,
    ].join('\n');
  }
}
