import { fork, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort } from '../dist/src/embedded-postgres/free-port.js';

const START_MS = 30_000;
/** Of `utime` and `stime` in /proc: USER_HZ, which is 100 wherever Linux runs. */
const MICROSECONDS_PER_TICK = 10_000;
/** As `npm start` runs the service. Who else gets them is compared by its code, not by its garbage collector. */
const FLAGS = ['--max-semi-space-size=64', '--no-allocation-site-pretenuring'];

/** The processes of one run, each alone with its task. */
export class Processes {
  #children = [];
  #profiled = [];

  /**
   * @param variables the environment, given the port
   * @param profiles folder for its CPU profile, if one is wanted
   * @param flags of Node.js
   * @returns {Promise<{ url: string, pid: number }>} once it answers
   */
  async serve(script, words = [], variables = () => ({}), { profiles, flags = FLAGS } = {}) {
    const port = await freePort();
    const profiling = profiles === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${profiles}`];
    const child = spawn(process.execPath, [...flags, ...profiling, script, ...words, String(port)], {
      env: { PATH: process.env.PATH, ...variables(port) },
      // The log goes into a pipe that is read, as it would be in production.
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    child.stdout.resume();
    (profiles === undefined ? this.#children : this.#profiled).push(child);
    const url = `http://127.0.0.1:${port}`;
    for (let waited = 0; waited < START_MS && child.exitCode === null; waited += 100) {
      if (await fetch(url).then(Boolean, () => false)) return { url, pid: child.pid };
      await sleep(100);
    }
    throw new Error(`${script} ${words.join(' ')} did not start`);
  }

  /**
   * A process that works without HTTP: see work.js.
   * @returns {Promise<(seconds: number) => Promise<object>>} what it got done in so many seconds
   */
  async work(kind, task) {
    const child = fork('bench/work.js', [kind], { execArgv: FLAGS, env: { PATH: process.env.PATH } });
    this.#children.push(child);
    const ask = (message) =>
      new Promise((resolve, reject) => {
        child.once('message', resolve).once('exit', () => reject(new Error(`the work ${kind} ended`)));
        child.send(message);
      }).finally(() => child.removeAllListeners());
    await ask(task);
    return (seconds) => ask({ seconds });
  }

  /** What is profiled ends by itself, and writes its profile then. */
  async stop() {
    const ends = this.#profiled.map((child) => new Promise((ended) => child.once('exit', ended)));
    for (const child of this.#profiled) child.kill('SIGTERM');
    for (const child of this.#children) child.kill('SIGKILL');
    await Promise.all(ends);
  }
}

/** @returns the CPU time of a process, its threads and its children, in microseconds; NaN where there is no /proc */
export function cpuOf(pid) {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, 'latin1')
      .replace(/^.*\) /s, '')
      .split(' ');
    const own = (Number(fields[11]) + Number(fields[12])) * MICROSECONDS_PER_TICK;
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'latin1').split(' ').filter(Boolean);
    return children.map(cpuOf).reduce((sum, cpu) => sum + cpu, own);
  } catch {
    return NaN;
  }
}

export async function post(url, body, headers = {}) {
  const answer = await fetch(url, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', ...headers },
    body: JSON.stringify(body),
  });
  if (!answer.ok) throw new Error(`${url} answered ${answer.status}`);
  return answer.json();
}
