// Runs the guard for FastAPI against the built service, and against a stand-in that answers in every other way, in the virtual
// environment of clients/python. The last line counts.
import { delimiter, resolve } from 'node:path';
import { claimPort } from '../../tools/claim-port.js';
import { ApiClient } from '../../tools/api-client.js';
import { Checks } from '../../tools/checks.js';
import type { Cleanup } from '../../tools/cleanup.js';
import { untilVerdict } from '../../tools/repeat-while.js';
import { ServerProcess } from '../../tools/server-process.js';
import { prepareVerifierPython } from '../../tools/verifier-python.js';
import { startFirstRun } from '../browser/service.js';
import { ANSWER_CASES, expectAnswer, expectVerdict, VERDICT_CASES, type Credentials } from './cases.js';
import { StandIn } from './stand-in.js';

const checks = new Checks();

/** The service of guarded.py, which asks the platform-auth at this address. @returns its own address */
async function startGuarded(cleanup: Cleanup, python: string, authUrl: string): Promise<string> {
  const port = await claimPort();
  const words = ['uvicorn', 'guarded:app', '--host', '127.0.0.1', '--port', String(port), '--log-level', 'warning'];
  const PYTHONPATH = ['test/guards', 'examples/guards'].map((folder) => resolve(folder)).join(delimiter);
  const variables = { PYTHONPATH, PYTHONDONTWRITEBYTECODE: '1', AUTH_URL: authUrl };
  const service = new ServerProcess(port, { cleanup, program: python, script: '-m', words, variables });
  return (await service.start()).url;
}

async function makeCredentials(url: string, adminKey: string): Promise<Credentials> {
  const client = new ApiClient(url, adminKey);
  const person = { email: 'alice@example.org', password: 'correct horse battery' };
  await client.register(person);
  const [{ access_token }, ended] = [await client.logIn(person), await client.logIn(person)];
  await untilVerdict(() =>
    fetch(`${url}/api/v0/auth/logout`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ refresh_token: ended.refresh_token }),
    }),
  );
  const issue = async (pair: Parameters<typeof client.issueAppCredential>[0]): Promise<Record<string, string>> => {
    const { app_id, app_key } = await client.issueAppCredential(pair);
    return { 'X-Platform-App-Id': app_id, 'X-Platform-App-Key': app_key };
  };
  const household_id = '5b1c7a9e-0d35-4c8e-9a57-6f0b1f4f2a10';
  const { node_id, api_key } = await client.issueNode({ household_id, room: 'hall', name: 'lamp' });
  return {
    user: { Authorization: `Bearer ${access_token}` },
    endedSession: { Authorization: `Bearer ${ended.access_token}` },
    app: await issue({ caller: 'ocr', target: 'recipes' }),
    foreignApp: await issue({ caller: 'ocr', target: 'speech' }),
    restrictedApp: await issue({ caller: 'mcp', target: 'recipes', scopes: ['documents:read'] }),
    node: { 'X-API-Key': `${node_id}:${api_key}` },
  };
}

async function checkVerdicts(cleanup: Cleanup, python: string): Promise<void> {
  const { server, adminKey } = await startFirstRun(cleanup);
  const credentials = await makeCredentials(server.url, adminKey);
  const url = await startGuarded(cleanup, python, server.url);
  for (const { name, path, headers, expected } of VERDICT_CASES) {
    await checks.run(name, () => expectVerdict(url + path, headers(credentials), expected));
  }
}

async function checkAnswers(cleanup: Cleanup, python: string): Promise<void> {
  const standIn = await StandIn.start();
  cleanup.defer(() => standIn.stop());
  const url = `${await startGuarded(cleanup, python, standIn.url)}/node`;
  for (const { name, answers: told, requests, expected } of ANSWER_CASES) {
    await checks.run(name, async () => {
      standIn.answerWith(...told);
      await expectAnswer(url, { 'X-API-Key': 'a:b' }, expected);
      if (standIn.requests !== requests) throw new Error(`It asked ${standIn.requests} times instead of ${requests}`);
    });
  }
  standIn.stop();
  await checks.run('answers 503 when connections are refused', () =>
    expectAnswer(url, { 'X-API-Key': 'a:b' }, { status: 503, code: 'unavailable' }),
  );
}

await checks.around(async (cleanup) => {
  const python = prepareVerifierPython();
  await checkVerdicts(cleanup, python);
  await checkAnswers(cleanup, python);
});
