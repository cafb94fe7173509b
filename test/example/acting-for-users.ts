// What examples/platform shows of services that act for a user: recipes calls ocr, which calls documents (RFC 8693).
import { deepStrictEqual, match } from 'node:assert/strict';
import { parse } from 'dotenv';
import type { Checks } from '../../tools/checks.js';
import type { Example } from './example.js';
import { watchRevocation, type Verdict } from './watch.js';

const FIRST = 'In another terminal, first:';
const CALL =
  'A user calls recipes, which calls ocr on behalf of the user, which calls documents (Go) on behalf of the user:';
const THIRD_TERMINAL = 'In the third terminal, first:';
const UNLINK = 'Let recipes act for users at ocr no more (the middle link):';
const ACCESS_TOKEN = 'urn:ietf:params:oauth:token-type:access_token';

export async function checkActingForUsers(checks: Checks, example: Example): Promise<void> {
  const ask = async (): Promise<Record<string, unknown>> =>
    JSON.parse(await example.types(FIRST, CALL)) as Record<string, unknown>;
  await checks.run('a user is passed on from the TypeScript service to the Python one to the Go one', async () => {
    const { reader, ...answer } = await ask();
    match(String(reader), /^[\da-f-]{36}$/);
    deepStrictEqual(answer, { text: 'pancakes', documents_was_asked_by: ['ocr', 'recipes'] });
  });
  // Read once, because the shell logs two users in.
  const [documents = '', token = ''] = await example.reads(FIRST, 'DOCUMENTS_URL', 'TOKEN');
  await checks.run('the user’s own token is refused by the Go service, which only services call', async () =>
    deepStrictEqual((await callDocuments(documents, token)).status, 403),
  );
  await checks.run(
    'no call with a token for the last service is accepted after the middle link was revoked',
    async () => {
      const middle = await getToken(example, 'recipes', token, 'ocr');
      const last = await getToken(example, 'ocr', middle, 'documents');
      const call = async (): Promise<Verdict> => {
        const { status } = await callDocuments(documents, last);
        if (status === 200) return 'accepted';
        return status === 401 ? 'refused' : `strange: ${status}`;
      };
      await watchRevocation(call, () => example.types(THIRD_TERMINAL, UNLINK));
    },
  );
  await checks.run('the user is answered 503 then, because the user’s own token is still valid', async () =>
    deepStrictEqual((await ask()).status, 503),
  );
}

async function callDocuments(url: string, token: string): Promise<Response> {
  return fetch(`${url}/photos/latest`, { headers: { Authorization: `Bearer ${token}` } });
}

/** Asks as a service of the example does, with its key. */
async function getToken(example: Example, service: string, subject: string, audience: string): Promise<string> {
  const { AUTH_URL = '', AUTH_APP_ID, AUTH_APP_KEY } = parse(example.readFile(`env/${service}.env`));
  const response = await fetch(`${AUTH_URL}/internal/token`, {
    method: 'POST',
    headers: { Authorization: `Basic ${Buffer.from(`${AUTH_APP_ID}:${AUTH_APP_KEY}`).toString('base64')}` },
    body: new URLSearchParams({
      grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
      subject_token: subject,
      subject_token_type: ACCESS_TOKEN,
      audience,
    }),
  });
  const { access_token: token, error } = (await response.json()) as { access_token?: string; error?: string };
  if (token === undefined) throw new Error(`${service} got no token for ${audience}: ${error}`);
  return token;
}
