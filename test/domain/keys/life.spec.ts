import { randomUUID } from 'node:crypto';
import type { IssuedAppCredentialResponse } from '../../../src/api/admin/app-credentials.admin.controller.js';
import { problems } from '../../../src/foundation/problems/problems.js';
import { expectProblem } from '../../support/expect-problem.js';
import { useApp } from '../../support/use-app.js';
import { recorded } from '../audit/record.js';

const LIFE_DAYS = 30;
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

describe('the life of an app key (APP_KEY_DAYS)', () => {
  const app = useApp({ variables: { APP_KEY_DAYS: String(LIFE_DAYS) } });
  const { clock } = app;
  const read = (text: string | null): number => Date.parse(text ?? '');
  const issue = async (fields: object = {}): Promise<IssuedAppCredentialResponse> => {
    const pair = { caller: randomUUID(), target: 'recipes' };
    return (await app.admin.post('/app-credentials', { ...pair, ...fields }).expect(201))
      .body as IssuedAppCredentialResponse;
  };
  const rotate = async (id: string, overlap_hours: number): Promise<IssuedAppCredentialResponse> =>
    (await app.admin.post(`/app-credentials/${id}/rotate`, { overlap_hours }).expect(200))
      .body as IssuedAppCredentialResponse;
  const validate = ({ app_id, app_key }: IssuedAppCredentialResponse) =>
    app.validateApp({ 'X-Platform-App-Id': app_id, 'X-Platform-App-Key': app_key });

  it('begins with its issue, unless that names an end or none', async () => {
    const end = new Date(clock.now().getTime() + DAY_MS).toISOString();
    const issued = await issue();
    expect(read(issued.expires_at) - read(issued.created_at)).toBe(LIFE_DAYS * DAY_MS);
    expect(issued).toMatchObject({ life_days: LIFE_DAYS });
    expect(await issue({ expires_at: end })).toMatchObject({ expires_at: end, life_days: null });
    expect(await issue({ expires_at: null })).toMatchObject({ expires_at: null, life_days: null });
  });

  it('starts again with a rotation for the new key, and the old one keeps its end', async () => {
    const old = await issue();
    clock.advance({ days: LIFE_DAYS - 1 });
    const fresh = await rotate(old.app_id, 48);
    expect(fresh).toMatchObject({ previous_key_expires_at: old.expires_at, life_days: LIFE_DAYS });
    expect(read(fresh.expires_at)).toBe(read(fresh.rotated_at) + LIFE_DAYS * DAY_MS);
    const [event] = await recorded(app, { event: 'admin.app_credential.rotated', subject: old.app_id });
    expect(event).toMatchObject({ details: { after: { expires_at: fresh.expires_at } } });
    for (const each of [old, fresh]) await validate(each).expect(200);
    clock.advance({ days: 1 });
    expectProblem(await validate(old), problems.invalidAppCredentials);
    await validate(fresh).expect(200);
    clock.advance({ days: LIFE_DAYS });
    expectProblem(await validate(fresh), problems.invalidAppCredentials);
  });

  it('of the old key is not extended by further rotations during the overlap', async () => {
    const old = await issue();
    const { previous_key_expires_at } = await rotate(old.app_id, 24);
    clock.advance({ minutes: 60 });
    expect(await rotate(old.app_id, 24 * LIFE_DAYS)).toMatchObject({ previous_key_expires_at });
    expect(await rotate(old.app_id, 1)).not.toMatchObject({ previous_key_expires_at });
    await validate(old).expect(200);
    clock.advance({ minutes: 60 });
    expectProblem(await validate(old), problems.invalidAppCredentials);
  });

  it('holds for new credentials only: another one is as it was issued', async () => {
    const old = await issue({ expires_at: null });
    expect(await rotate(old.app_id, 1)).toMatchObject({ expires_at: null, life_days: null });
  });
});
