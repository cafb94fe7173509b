// Runs the container of a rendered pod under runc: the image, the security context and the environment of the pod, and its
// Secrets as files. It shares the network of the machine, as there is no cluster.
import { spawn, spawnSync, type ChildProcess, type SpawnSyncReturns } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, chownSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { arch } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { z } from 'zod';
import type { Cleanup } from '../../tools/cleanup.js';
import { makeTemporaryFolder } from '../../tools/postgres.js';
import { resolvePod, type Pod, type Secrets } from '../kubernetes/chart.js';
import type { Image } from './image.js';

/** What RuntimeDefault is: the profile that Debian's containers share, in the form of Docker. */
const SECCOMP_PROFILE = '/usr/share/containers/seccomp.json';
const ARCHITECTURES: Record<string, string> = { x64: 'amd64', arm64: 'arm64' };
const SECCOMP_ARCHITECTURES: Record<string, string> = { amd64: 'SCMP_ARCH_X86_64', arm64: 'SCMP_ARCH_AARCH64' };
const conditions = z.object({ caps: z.array(z.string()).optional(), arches: z.array(z.string()).optional() }).nullish();
const seccompProfile = z.object({
  defaultAction: z.string(),
  defaultErrnoRet: z.int(),
  archMap: z.array(z.object({ architecture: z.string(), subArchitectures: z.array(z.string()).nullable() })),
  syscalls: z.array(
    z.looseObject({
      includes: conditions,
      names: z.array(z.string()),
      action: z.string(),
      args: z.unknown().optional(),
      errnoRet: z.unknown().optional(),
    }),
  ),
});

const device = { type: 'tmpfs', source: 'tmpfs', options: ['nosuid', 'mode=755', 'size=64k'] };
const MOUNTS = [
  { destination: '/proc', type: 'proc', source: 'proc' },
  { destination: '/dev', ...device },
  ...['/etc/hosts', '/etc/resolv.conf'].map((path) => toBind(path, path)),
];

export class Container {
  private readonly id: string;

  private constructor(
    private readonly folder: string,
    private readonly config: { readonly process: { readonly args: readonly string[] } },
  ) {
    this.id = basename(folder);
  }

  /** @param secrets the cluster's, of which the pod gets what its volumes name */
  static make(cleanup: Cleanup, image: Image, pod: Pod, secrets: Secrets): Container {
    const folder = makeTemporaryFolder(cleanup, 'pod');
    const { variables, files } = resolvePod(pod, secrets);
    for (const { path, content, mode } of files) {
      const file = join(folder, 'volumes', path);
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(file, content);
      chownSync(file, 0, toUser(pod).fsGroup);
      chmodSync(file, mode);
    }
    const mounts = [...new Set(files.map(({ path }) => dirname(path)))].map((path) =>
      toBind(join(folder, 'volumes', path), path),
    );
    const container = new Container(folder, toConfig(image, pod, variables, mounts));
    cleanup.defer(() => container.runc('delete', '--force', container.id));
    return container;
  }

  /** Starts the command of the pod, or that of the image. */
  start(): ChildProcess {
    this.writeConfig(this.config.process.args);
    return spawn('runc', [...this.state, 'run', '--bundle', this.folder, this.id], {
      stdio: ['ignore', 'inherit', 'inherit'],
    });
  }

  /** Runs a command, or that of the pod, to its end. */
  run(command = this.config.process.args): SpawnSyncReturns<string> {
    this.writeConfig(command);
    return this.runc('run', '--bundle', this.folder, this.id);
  }

  /** Runs a command in the started container, as `kubectl exec` does. */
  exec(...command: readonly string[]): SpawnSyncReturns<string> {
    return this.runc('exec', this.id, ...command);
  }

  /** Stops what was started, as the kubelet does. @returns the exit code */
  async stop(started: ChildProcess): Promise<unknown> {
    const exited = once(started, 'exit');
    this.runc('kill', this.id, 'TERM');
    const [code] = await exited;
    return code;
  }

  private get state(): string[] {
    return ['--root', join(this.folder, 'state')];
  }

  private runc(...words: readonly string[]): SpawnSyncReturns<string> {
    return spawnSync('runc', [...this.state, ...words], { encoding: 'utf8' });
  }

  private writeConfig(args: readonly string[]): void {
    const config = { ...this.config, process: { ...this.config.process, args } };
    writeFileSync(join(this.folder, 'config.json'), JSON.stringify(config));
  }
}

/** Without a user of its own the pod gets one as OpenShift assigns it: a number that the image does not know, in group 0. */
function toUser({ securityContext: { runAsUser, runAsGroup, fsGroup } }: Pod) {
  return { uid: runAsUser ?? 1_000_650_000, gid: runAsGroup ?? 0, fsGroup: fsGroup ?? 1_000_650_000 };
}

function toConfig(image: Image, pod: Pod, variables: Readonly<Record<string, string | undefined>>, mounts: object[]) {
  const [{ command, securityContext }] = pod.containers;
  const { uid, gid, fsGroup } = toUser(pod);
  const { allowPrivilegeEscalation, readOnlyRootFilesystem } = securityContext;
  const sets = ['bounding', 'effective', 'inheritable', 'permitted', 'ambient'];
  return {
    ociVersion: '1.0.2',
    process: {
      user: { uid, gid, additionalGids: [fsGroup] },
      args: command ?? image.command,
      env: [...image.env, ...Object.entries(variables).map(([name, value]) => `${name}=${value}`)],
      cwd: image.workingFolder,
      // The schema of the pod takes nothing but `drop: [ALL]`.
      capabilities: Object.fromEntries(sets.map((set) => [set, []])),
      noNewPrivileges: !allowPrivilegeEscalation,
    },
    root: { path: image.root, readonly: readOnlyRootFilesystem },
    hostname: 'pod',
    mounts: [...MOUNTS, ...mounts],
    linux: {
      namespaces: ['mount', 'pid', 'ipc', 'uts'].map((type) => ({ type })),
      maskedPaths: ['/proc/kcore', '/proc/keys'],
      readonlyPaths: ['/proc/sys'],
      seccomp: readSeccompProfile(),
    },
  };
}

/** @returns the profile as runc reads it, for a container without capabilities */
function readSeccompProfile() {
  const profile = seccompProfile.parse(JSON.parse(readFileSync(SECCOMP_PROFILE, 'utf8')));
  const { defaultAction, defaultErrnoRet, archMap } = profile;
  const own = ARCHITECTURES[arch()] ?? arch();
  const syscalls = profile.syscalls
    .filter(({ includes }) => !includes?.caps && (includes?.arches ?? [own]).includes(own))
    .map(({ names, action, args, errnoRet }) => ({ names, action, args, errnoRet }));
  // The others have another order of bytes, and are refused.
  const architectures = archMap
    .filter(({ architecture }) => architecture === SECCOMP_ARCHITECTURES[own])
    .flatMap(({ architecture, subArchitectures }) => [architecture, ...(subArchitectures ?? [])]);
  return { defaultAction, defaultErrnoRet, architectures, syscalls };
}

function toBind(source: string, destination: string) {
  return { destination, type: 'bind', source, options: ['bind', 'ro'] };
}
