// The verifier in Go, by the benchmarks of clients/go, which are compiled once.
import { spawnSync } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { join, resolve } from 'node:path';
import type { Load } from './measure.js';
import { NAMES } from './names.js';
import type { Maker, Setting } from './population.js';
import { memoize } from './verifiers.js';

/** The sources are started from the root of the project. */
const PROJECT = resolve('clients/go');
const NANOSECONDS = 1e9;

/** @returns why the verifier in Go cannot be measured here; undefined when it can */
export function findGoObstacle(): string | undefined {
  const { error, stderr, status } = spawnSync('go', ['version'], { encoding: 'utf8' });
  return error?.message ?? (status === 0 ? undefined : stderr);
}

export function listGoVerifiers({ testbed }: Setting): [string, Maker][] {
  if (findGoObstacle() !== undefined) return [];
  const program = memoize(() => Promise.resolve(compile(testbed.makeFolder('go'))));
  const benchmark =
    (test: string, cores: number): Maker =>
    async (name) => ({ name, load: toLoad(await program(), test, cores) });
  const cores = availableParallelism();
  return [
    [NAMES.goBareKey, benchmark('BenchmarkBareHashAndMap', 1)],
    [NAMES.goKey, benchmark('BenchmarkRememberedNode', 1)],
    [NAMES.goBareKeyCores, benchmark('BenchmarkBareHashAndMap', cores)],
    [NAMES.goKeyCores, benchmark('BenchmarkRememberedNode', cores)],
  ];
}

/** @returns the program of the benchmarks */
function compile(folder: string): string {
  const program = join(folder, 'benchmarks');
  run('go', ['test', '-c', '-o', program, '.']);
  return program;
}

function toLoad(program: string, test: string, cores: number): Load {
  const words = ['-test.run', '^$', '-test.bench', `^${test}$`, '-test.cpu', String(cores)];
  return (seconds) => {
    const output = run(program, [...words, '-test.benchtime', `${seconds}s`]);
    const cpu = readMetric(output, 'cpu-ns/op') / 1_000;
    return Promise.resolve({ throughput: NANOSECONDS / readMetric(output, 'ns/op'), cpu });
  };
}

function readMetric(output: string, unit: string): number {
  return Number(new RegExp(`\\s([\\d.]+) ${unit}`).exec(output)?.[1]);
}

function run(program: string, words: readonly string[]): string {
  const { status, stdout, stderr } = spawnSync(program, words, { cwd: PROJECT, encoding: 'utf8' });
  if (status !== 0) throw new Error(`${program} failed: ${stdout}${stderr}`);
  return stdout;
}
