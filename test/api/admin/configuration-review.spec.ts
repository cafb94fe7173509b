import { randomBytes } from 'node:crypto';
import { listWeakSettings } from '../../../src/foundation/config/weak-settings.js';
import { parseEnvironment, type Variables } from '../../../src/foundation/config/environment.js';
import { UNLEASED, VARIABLES } from '../../support/settings.js';
import { useApp } from '../../support/use-app.js';

const STRONG: Variables = {
  ...VARIABLES,
  NODE_ENV: 'production',
  BCRYPT_COST: '10',
  ADMIN_SET_PASSWORDS: 'refused',
  DATABASE_URL: 'postgresql://auth@db.example.org/auth?sslmode=verify-full',
  LOGGING_SERVICE_URL: 'https://logs.example.org',
};

const weakOf = (variables: Variables): string[] =>
  listWeakSettings(parseEnvironment({ ...STRONG, ...variables })).map(({ variable }) => variable);

describe('the weak settings of production', () => {
  it.each<[string, Variables]>([
    ['DATABASE_URL', { DATABASE_URL: 'postgresql://auth@db.example.org/auth' }],
    ['DATABASE_URL', { DATABASE_URL: 'postgresql://auth@10.0.0.7/auth?sslmode=prefer' }],
    ['DATABASE_URL', { DATABASE_URL: 'postgresql://auth@db.example.org/auth?sslmode=disable' }],
    ['LOGGING_SERVICE_URL', { LOGGING_SERVICE_URL: 'http://logs.example.org' }],
    ['PASSWORD_RESET_URL', { PASSWORD_RESET_URL: 'http://app.example.org/reset' }],
    ['EMAIL_VERIFICATION_URL', { EMAIL_VERIFICATION_URL: 'http://app.example.org/verify' }],
    ['PASSWORD_BREACH_CHECK_URL', { PASSWORD_BREACH_CHECK_URL: 'http://breaches.example.org/range/' }],
    ['BCRYPT_COST', { BCRYPT_COST: '9' }],
    ['PASSWORD_MIN_LENGTH', { PASSWORD_MIN_LENGTH: '7' }],
    ['PASSWORD_BLOCKLIST', { PASSWORD_BLOCKLIST: 'off' }],
    ['ADMIN_SET_PASSWORDS', { ADMIN_SET_PASSWORDS: 'allowed' }],
  ])('are named, and accepted: %s %o', (name, variables) => {
    expect(weakOf(variables)).toEqual([name]);
    expect(weakOf({ ...variables, NODE_ENV: 'development' })).toEqual([]);
  });

  it.each<Variables>([
    {},
    { DATABASE_URL: 'postgresql://auth@127.0.0.1/auth', LOGGING_SERVICE_URL: 'http://localhost:8080/logs' },
    { DATABASE_URL: 'postgresql://auth@[::1]/auth', LOGGING_SERVICE_URL: 'http://[::1]:8080/logs' },
    { DATABASE_URL: 'postgresql://auth@localhost/auth?host=/var/run/postgresql' },
  ])('are none when the connections are encrypted or stay on this machine: %o', (variables) => {
    expect(weakOf(variables)).toEqual([]);
  });
});

describe('GET /api/v0/admin/configuration-review', () => {
  const app = useApp({ variables: { ...UNLEASED, NODE_ENV: 'production' } });

  it('names weak settings without their values, and says since when the root key is in use', async () => {
    const { body } = await app.admin.get('/configuration-review').expect(200);
    const { weak_settings, root_key_first_seen_at } = body as {
      weak_settings: { variable: string }[];
      root_key_first_seen_at: string;
    };
    expect(weak_settings.map(({ variable }) => variable)).toEqual(['BCRYPT_COST', 'ADMIN_SET_PASSWORDS']);
    expect(Math.abs(Date.parse(root_key_first_seen_at) - Date.now())).toBeLessThan(3_600_000);
  });

  it('begins anew with another key, and keeps the moment of one that comes back', async () => {
    await app.database.query("UPDATE root_keys SET first_seen_at = '2025-01-01T00:00:00Z'");
    const key = randomBytes(32).toString('base64url');
    const replica = await app.startReplica({ variables: { ADMIN_API_KEY: key } });
    const other = await replica.asAdmin(key).get('/configuration-review').expect(200);
    expect(other.body).toMatchObject({ root_key_first_seen_at: expect.stringMatching(/^20(?!25-01-01)/) as string });
    await replica.stop();
    const again = await app.startReplica();
    const { body } = await again.admin.get('/configuration-review').expect(200);
    expect(body).toMatchObject({ root_key_first_seen_at: '2025-01-01T00:00:00.000Z' });
    await again.stop();
  });
});
