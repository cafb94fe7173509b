import { readFileSync } from 'node:fs';
import express from 'express';
import { createGuard } from '../../examples/guards/express.js';
import { urlOf } from '../support/cli.js';
import { fromRoot } from '../support/from-root.js';
import { serve } from '../support/serve.js';
import { useApp } from '../support/use-app.js';
import { ANSWER_CASES, expectAnswer, expectVerdict, ROUTES, VERDICT_CASES, type Credentials } from './cases.js';
import { body, StandIn } from './stand-in.js';

/** A service with a guard on each route. */
async function startGuarded(authUrl: string): ReturnType<typeof serve> {
  const guarded = express();
  for (const [path, [door, scope]] of Object.entries(ROUTES)) {
    guarded.get(path, createGuard(door, { authUrl, serviceName: 'recipes', scope }), (_request, response) => {
      response.json(response.locals.caller);
    });
  }
  return serve(guarded);
}

describe('the guard for Express, with the service', () => {
  const app = useApp();
  let guarded: Awaited<ReturnType<typeof startGuarded>>;
  let credentials: Credentials;

  beforeAll(async () => {
    guarded = await startGuarded(urlOf(app));
    const user = await app.user();
    const [{ access_token }, ended] = [await user.logsIn(), await user.logsIn()];
    await app.logout(ended.refresh_token).expect(204);
    credentials = {
      user: { Authorization: `Bearer ${access_token}` },
      endedSession: { Authorization: `Bearer ${ended.access_token}` },
      app: (await app.service('ocr', 'recipes')).headers,
      foreignApp: (await app.service('ocr', 'speech')).headers,
      restrictedApp: (await app.service('mcp', 'recipes', ['documents:read'])).headers,
      node: { 'X-API-Key': (await app.node()).header },
    };
  });
  afterAll(() => guarded.close());

  it.each(VERDICT_CASES)('$name', async ({ path, headers, expected }) => {
    await expectVerdict(guarded.url + path, headers(credentials), expected);
  });

  it('tells the route who calls', async () => {
    expect(await expectVerdict(`${guarded.url}/app`, credentials.app, { status: 200 })).toMatchObject({
      caller: 'ocr',
      target: 'recipes',
    });
  });
});

describe('the guard for Express, with an answer of any kind', () => {
  let standIn: StandIn;
  let guarded: Awaited<ReturnType<typeof startGuarded>>;

  beforeAll(async () => {
    standIn = await StandIn.start();
    guarded = await startGuarded(standIn.url);
  });
  afterAll(() => {
    guarded.close();
    standIn.stop();
  });

  it.each(ANSWER_CASES)('$name', async ({ answers, requests, expected }) => {
    standIn.answerWith(...answers);
    await expectAnswer(`${guarded.url}/node`, { 'X-API-Key': 'a:b' }, expected);
    expect(standIn.requests).toBe(requests);
  });

  it('passes a verdict on that is nested too deeply to be written again', async () => {
    const deep = `${'['.repeat(200_000)}${']'.repeat(200_000)}`;
    standIn.answerWith(body(401, `{"code":"invalid_node_credentials","more":${deep}}`));
    const expected = { status: 401, code: 'invalid_node_credentials' };
    await expectAnswer(`${guarded.url}/node`, { 'X-API-Key': 'a:b' }, expected);
  });

  it('answers 503 when connections are refused', async () => {
    const gone = await StandIn.start();
    const alone = await startGuarded(gone.url);
    gone.stop();
    await expectAnswer(`${alone.url}/node`, { 'X-API-Key': 'a:b' }, { status: 503, code: 'unavailable' });
    alone.close();
  });
});

describe('docs/integrate.md', () => {
  it.each(['express.ts', 'fastapi_guard.py'])('shows the guard %s as it is', (name) => {
    const read = (path: string): string => readFileSync(fromRoot(path), 'utf8');
    expect(read('docs/integrate.md')).toContain(read(`examples/guards/${name}`));
  });
});
