import type { Tokens } from '../support/test-app.js';
import { useApp, useReplica } from '../support/use-app.js';
import { recorded } from '../audit/record.js';

const HOME = '192.0.2.7';
const AWAY = '198.51.100.9';

describe('a refresh that is repeated within the grace', () => {
  const variables = { TRUST_PROXY: 'true' };
  const app = useApp({ variables });
  const replica = useReplica(app);

  const refreshFrom = async (address: string, token: string, through = app): Promise<Tokens> =>
    (await through.refresh(token).set('X-Forwarded-For', address).expect(200)).body as Tokens;
  const EVENT = 'session.refresh.repeated_elsewhere';

  it('from another network returns the same successor, logs a warning and writes one audit row', async () => {
    const alice = await app.user();
    const { refresh_token } = await alice.logsIn();
    const first = await refreshFrom(HOME, refresh_token);
    const repeat = await refreshFrom(AWAY, refresh_token, replica);
    expect(repeat.refresh_token).toBe(first.refresh_token);
    expect(replica.log.lines).toContainEqual(
      expect.objectContaining({ event: EVENT, level: 'warn', address: AWAY, user_id: alice.id }),
    );
    await refreshFrom('203.0.113.4', refresh_token);
    expect(await recorded(app, { subject: alice.id, event: EVENT })).toMatchObject([
      { actor: { door: 'open', id: null }, address: AWAY, details: { rotated_from: HOME } },
    ]);
  });

  it('from another address of the same IPv6 /64 is neither logged nor audited', async () => {
    const alice = await app.user();
    const { refresh_token } = await alice.logsIn();
    await refreshFrom('2001:db8:1:2::7', refresh_token);
    await refreshFrom('2001:db8:1:2:ffff::8', refresh_token);
    expect(await recorded(app, { subject: alice.id, event: EVENT })).toEqual([]);
    expect(app.log.events(EVENT).filter(({ user_id }) => user_id === alice.id)).toEqual([]);
  });

  it('is audited again at the next rotation', async () => {
    const alice = await app.user();
    const { refresh_token } = await alice.logsIn();
    const second = (await refreshFrom(HOME, refresh_token)).refresh_token;
    await refreshFrom(AWAY, refresh_token);
    await refreshFrom(HOME, second);
    await refreshFrom(AWAY, second);
    expect(await recorded(app, { subject: alice.id, event: EVENT })).toHaveLength(2);
  });

  it('is not audited when an older version, which recorded no network, did the rotation', async () => {
    const alice = await app.user();
    const { refresh_token } = await alice.logsIn();
    await refreshFrom(HOME, refresh_token);
    await app.database.query('UPDATE sessions SET rotated_from = NULL WHERE user_id = $1', [alice.id]);
    await refreshFrom(AWAY, refresh_token);
    expect(await recorded(app, { subject: alice.id, event: EVENT })).toEqual([]);
  });
});
