import { replaceSettings } from '../../tools/replace-settings.js';
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { z } from 'zod';
import type { PostgresServer } from '../../tools/postgres-server.js';
import { meOf, refresh } from '../actors/sessions.js';
import { verifyToken } from '../actors/verifiers.js';
import { bearerOf, Life, type Key } from '../ledger.js';
import type { Scenario, Stage } from '../stage.js';

const CLI = fileURLToPath(new URL('../../service/platform-auth.js', import.meta.url));
const kids = z.array(z.object({ kid: z.string(), state: z.string() }));
const run = promisify(execFile);

/** No fault: every answer must be right, for tokens of the old and the new signing key. */
export const keysRotated: Scenario = {
  name: 'keys-rotated',
  title: 'ES256: the signing key is rotated, then revoked as a stolen one; node and app keys are rotated with overlap',
  bounds: { errors: [], silenceMs: 10_000, slowestMs: 3_000 },
  async run(stage) {
    const { postgres } = stage.world;
    const variables = { ACCESS_TOKEN_ALGORITHM: 'ES256', NODE_OPTIONS: replaceSettings({ purgeIntervalMinutes: 1 }) };
    await stage.begin({ variables, verifiers: true });
    await stage.rest();
    const [first] = await findKids(postgres, 'active');
    // Makes the key look older than the longest time for which a JWKS may be cached.
    await postgres.query(`UPDATE signing_keys SET created_at = created_at - interval '1 hour'`);
    await operate(postgres, 'rotate');
    const [second] = await findKids(postgres, 'active');
    stage.expect(second !== undefined && second !== first, 'the signing key was not rotated');
    await stage.rest();
    await revokeActive(stage, second ?? '');
    await stage.rest();
  },
};

/** The load is paused, because every session has a token of the revoked key: all are refused until a refresh. */
async function revokeActive(stage: Stage, kid: string): Promise<void> {
  const { load, world } = stage;
  const resume = await load.pause();
  const { sessions } = load.kept;
  for (const session of sessions) await refresh(load, session);
  const stolen = sessions.map((session) => ({
    token: session.accessToken,
    request: meOf(session),
    key: nameToken(kid),
  }));
  for (const { token, key } of stolen)
    for (const verifier of load.verifiers) await verifyToken(load, verifier, token, key);
  for (const { key } of stolen) key.life.markEnding();
  await operate(world.postgres, 'revoke', kid, '--yes');
  for (const { key } of stolen) key.life.markEnded();
  for (const { token, request, key } of stolen) {
    for (const verifier of load.verifiers) await verifyToken(load, verifier, token, key);
    for (const answer of await load.askEverywhere(request)) load.judge('users/me', key.name, key.life, answer);
  }
  for (const session of sessions) await refresh(load, session);
  // No actor refreshes the other sessions any more, and their tokens are refused until then.
  for (const session of load.ledger.sessions) if (!sessions.includes(session)) session.life.markEnding();
  stage.expect(
    sessions.every((session) => stolen.every(({ token }) => bearerOf(session).Authorization !== `Bearer ${token}`)),
    'a refresh brought no new access token',
  );
  resume();
}

function nameToken(kid: string): Key {
  return { text: '', life: new Life(), name: `a token of the signing key ${kid}` };
}

async function findKids(postgres: PostgresServer, state: string): Promise<string[]> {
  const rows = kids.parse(await postgres.query('SELECT kid, state FROM signing_keys ORDER BY created_at DESC'));
  return rows.filter((row) => row.state === state).map(({ kid }) => kid);
}

/** Runs a command of an operator. */
async function operate(postgres: PostgresServer, ...words: readonly string[]): Promise<void> {
  const env = { PATH: process.env.PATH, DATABASE_URL: postgres.url };
  await run(process.execPath, [CLI, 'keys', ...words], { env });
}
