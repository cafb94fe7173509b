// Verifiers in Python, in the virtual environment of clients/python.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { claimPort } from '../tools/claim-port.js';
import { findVerifierPython } from '../tools/verifier-python.js';
import type { Load } from './measure.js';
import { NAMES } from './names.js';
import type { Maker, Setting } from './population.js';
import type { Target } from './testbed.js';
import { memoize, issueAskingKey, issueOwnKey, createRoute, startEmbedding, toKeys, toVariables } from './verifiers.js';
import { workReady, workSample, type OwnKey, type WorkKind, type WorkTask } from './work-messages.js';

/** Python's sources are not compiled into dist/. */
const PROGRAMS = fileURLToPath(new URL('../../bench/python', import.meta.url));

const environment = (own?: OwnKey): NodeJS.ProcessEnv => ({
  PATH: process.env.PATH,
  PYTHONPATH: PROGRAMS,
  PYTHONDONTWRITEBYTECODE: '1',
  ...(own && toVariables(own)),
});

/** @returns why verifiers in Python cannot be measured here; undefined when they can */
export function findPythonObstacle(): string | undefined {
  const found = findVerifierPython();
  return 'obstacle' in found ? found.obstacle : undefined;
}

/** Each runs in one process, on one core. */
export function listPythonVerifiers(setting: Setting): [string, Maker][] {
  const found = findVerifierPython();
  if ('obstacle' in found) return [];
  const { python } = found;
  const { known } = setting;
  const nodes = toKeys(known);
  const tokens = known.bearers.map(({ token }) => token);
  const alone =
    <Kind extends WorkKind>(kind: Kind, makeTask: () => Promise<WorkTask<Kind>>): Maker =>
    async (name) => ({ name, load: await startWork(python, setting, kind, await makeTask()) });
  const own = memoize(() => issueOwnKey(setting));
  const app = memoize(async () => startFastApi(python, setting, await own()));
  const route =
    (path: string): Maker =>
    async (name) =>
      createRoute(name, await app(), known, path);
  return [
    [NAMES.pythonBareKey, alone('bareKey', () => Promise.resolve({ nodes }))],
    [NAMES.pythonKey, alone('rememberedKey', async () => ({ own: await own(), nodes }))],
    [NAMES.pythonAskingKey, alone('askingKey', async () => ({ own: await issueAskingKey(setting), nodes }))],
    [NAMES.pythonToken, alone('rememberedToken', async () => ({ own: await own(), tokens }))],
    [NAMES.pythonEs256, alone('es256', () => Promise.resolve({ tokens }))],
    [NAMES.fastapi, route('/plain')],
    [NAMES.fastapiDependency, route('/dependency')],
    [NAMES.fastapiGuarded, route('/guarded')],
  ];
}

async function startWork<Kind extends WorkKind>(
  python: string,
  { testbed }: Setting,
  kind: Kind,
  task: WorkTask<Kind>,
): Promise<Load> {
  const child = spawn(python, [`${PROGRAMS}/work.py`, kind], {
    env: environment(),
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  testbed.defer(() => child.kill('SIGKILL'));
  const lines = createInterface({ input: child.stdout });
  const ask = async (message: object): Promise<unknown> => {
    const line = once(lines, 'line').then(([text]) => JSON.parse(text as string) as unknown);
    const exit = once(child, 'exit').then(() => Promise.reject(new Error(`the work ${kind} in Python ended`)));
    child.stdin.write(`${JSON.stringify(message)}\n`);
    return Promise.race([line, exit]);
  };
  workReady.parse(await ask(task));
  return async (seconds) => workSample.parse(await ask({ seconds }));
}

async function startFastApi(python: string, setting: Setting, own: OwnKey): Promise<Target> {
  const port = await claimPort();
  const flags = ['--host', '127.0.0.1', '--port', String(port), '--log-level', 'warning', '--no-access-log'];
  const words = ['-m', 'uvicorn', 'recipes:app', ...flags];
  return startEmbedding(setting, { program: python, words, port, variables: environment(own) });
}
