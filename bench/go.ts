// The verifier in Go, by the benchmarks of clients/go and a service that embeds it, which are compiled once.
import { spawnSync } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { join, resolve } from 'node:path';
import { claimPort } from '../tools/claim-port.js';
import type { Load } from './measure.js';
import { NAMES } from './names.js';
import type { Maker, Setting } from './population.js';
import type { Target } from './testbed.js';
import { createRoute, issueAskingKey, issueOwnKey, memoize, startEmbedding, toKeys, toVariables } from './verifiers.js';

/** The sources are started from the root of the project. */
const PROJECT = resolve('clients/go');
const EMBEDDING = resolve('bench/go');
const NANOSECONDS = 1e9;

/** @returns why the verifier in Go cannot be measured here; undefined when it can */
export function findGoObstacle(): string | undefined {
  const { error, stderr, status } = spawnSync('go', ['version'], { encoding: 'utf8' });
  return error?.message ?? (status === 0 ? undefined : stderr);
}

export function listGoVerifiers(setting: Setting): [string, Maker][] {
  if (findGoObstacle() !== undefined) return [];
  const { testbed, known } = setting;
  const program = memoize(() => Promise.resolve(compileBenchmarks(testbed.makeFolder('go'))));
  const benchmark =
    (test: string, cores = 1): Maker =>
    async (name) => ({ name, load: toLoad(await program(), test, cores) });
  const askedNode: Maker = async (name) => {
    const own = toVariables(await issueAskingKey(setting));
    const variables = { ...own, BENCH_NODES: toKeys(known).join(' ') };
    return { name, load: toLoad(await program(), 'BenchmarkAskedNode', 1, variables) };
  };
  const service = memoize(() => startNetHttp(setting));
  const route =
    (path: string): Maker =>
    async (name) =>
      createRoute(name, await service(), known, path);
  const cores = availableParallelism();
  return [
    [NAMES.goBareKey, benchmark('BenchmarkBareHashAndMap')],
    [NAMES.goKey, benchmark('BenchmarkRememberedNode')],
    [NAMES.goBareKeyCores, benchmark('BenchmarkBareHashAndMap', cores)],
    [NAMES.goKeyCores, benchmark('BenchmarkRememberedNode', cores)],
    [NAMES.goAskingKey, askedNode],
    [NAMES.goToken, benchmark('BenchmarkRememberedUser')],
    [NAMES.goEs256, benchmark('BenchmarkES256')],
    [NAMES.netHttp, route('/plain')],
    [NAMES.netHttpGuarded, route('/guarded')],
  ];
}

/** @returns the program of the benchmarks */
function compileBenchmarks(folder: string): string {
  const program = join(folder, 'benchmarks');
  run('go', ['test', '-c', '-tags', 'service', '-o', program, '.']);
  return program;
}

/** One process on one core, as the other verifiers. */
async function startNetHttp(setting: Setting): Promise<Target> {
  const program = join(setting.testbed.makeFolder('go-service'), 'recipes');
  run('go', ['build', '-o', program, '.'], { cwd: EMBEDDING });
  const port = await claimPort();
  const own = toVariables(await issueOwnKey(setting));
  const variables = { ...own, PORT: String(port), GOMAXPROCS: '1' };
  return startEmbedding(setting, { program, words: [], port, variables });
}

function toLoad(program: string, test: string, cores: number, variables: NodeJS.ProcessEnv = {}): Load {
  const words = ['-test.run', '^$', '-test.bench', `^${test}$`, '-test.cpu', String(cores)];
  return (seconds) => {
    const output = run(program, [...words, '-test.benchtime', `${seconds}s`], { variables });
    const cpu = readMetric(output, 'cpu-ns/op') / 1_000;
    return Promise.resolve({ throughput: NANOSECONDS / readMetric(output, 'ns/op'), cpu });
  };
}

function readMetric(output: string, unit: string): number {
  return Number(new RegExp(`\\s([\\d.]+) ${unit}`).exec(output)?.[1]);
}

function run(
  program: string,
  words: readonly string[],
  { cwd = PROJECT, variables = {} }: { cwd?: string; variables?: NodeJS.ProcessEnv } = {},
): string {
  const options = { cwd, env: { ...process.env, ...variables }, encoding: 'utf8' } as const;
  const { status, stdout, stderr } = spawnSync(program, words, options);
  if (status !== 0) throw new Error(`${program} failed: ${stdout}${stderr}`);
  return stdout;
}
