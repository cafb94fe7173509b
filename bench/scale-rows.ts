// The rows of the large tables. SQL and this file derive the same ids from a row's number.
import { createHash, createHmac, randomUUID } from 'node:crypto';
import type { HttpRequest } from './loads.js';
import { toAppRequest, toNodeRequest, toUserRequest } from './requests.js';

const sqlId = (text: string): string => `overlay(overlay(md5(${text}) placing '4' from 13) placing '8' from 17)::uuid`;

/** `$1`: the number of rows. */
export const FILL = [
  `INSERT INTO users (id, email, password_hash, is_active, created_at, updated_at)
   SELECT ${sqlId(`'u' || i`)}, 'u' || i || '@example.org', '$2b$04$', true, now(), now() FROM generate_series(1, $1::int) i`,
  `INSERT INTO sessions (id, user_id, token_digest, generation, rotated_at, expires_at, absolute_expires_at, created_at)
   SELECT ${sqlId(`'s' || i`)}, ${sqlId(`'u' || i`)}, sha256(i::text::bytea), 0, now(), now() + interval '1 day',
          now() + interval '1 day', now() FROM generate_series(1, $1::int) i`,
  `INSERT INTO nodes (id, household_id, room, name, key_digest, created_at, updated_at)
   SELECT ${sqlId(`'n' || i`)}, gen_random_uuid(), 'hall', 'lamp', sha256(('k' || i)::bytea), now(), now()
   FROM generate_series(1, $1::int) i`,
  `INSERT INTO app_credentials (id, caller, target, key_digest, created_at, updated_at)
   SELECT ${sqlId(`'a' || i`)}, 'c' || i, 't', sha256(('k' || i)::bytea), now(), now() FROM generate_series(1, $1::int) i`,
  `INSERT INTO audit_events (id, time, event, actor_door, actor_id, subject, count, details)
   SELECT gen_random_uuid(), now() - i * interval '1 second', 'user.login.succeeded', 'user', ${sqlId(`'u' || i`)},
          ${sqlId(`'u' || i`)}, 1, '{}' FROM generate_series(1, $1::int) i`,
  `INSERT INTO throttle_windows (key, points, window_start, window_end, lost, in_flight, in_flight_until, granted)
   SELECT 'login-account:' || md5(i::text), 100, now(), now() + interval '1 day', 1, 0, now(), 0
   FROM generate_series(1, $1::int) i`,
];

export function nodeRequestOf(row: number): HttpRequest {
  return toNodeRequest(idOf(`n${row}`), `k${row}`);
}

export function appRequestOf(row: number): HttpRequest {
  return toAppRequest(idOf(`a${row}`), `k${row}`);
}

export function userRequestOf(row: number, secretKey: string): HttpRequest {
  const id = idOf(`u${row}`);
  return toUserRequest(id, signToken(row, id, secretKey));
}

/** Signs an access token as the service does. */
function signToken(row: number, sub: string, secretKey: string): string {
  const iat = Math.floor(Date.now() / 1_000);
  const claims = { iss: 'platform-auth', sub, sid: idOf(`s${row}`), jti: randomUUID(), iat, exp: iat + 86_400 };
  const encoded = [
    { alg: 'HS256', typ: 'JWT' },
    { ...claims, email: `u${row}@example.org` },
  ]
    .map((part) => Buffer.from(JSON.stringify(part)).toString('base64url'))
    .join('.');
  return `${encoded}.${createHmac('sha256', secretKey).update(encoded).digest('base64url')}`;
}

function idOf(text: string): string {
  const hex = createHash('md5').update(text).digest('hex');
  const fixed = `${hex.slice(0, 12)}4${hex.slice(13, 16)}8${hex.slice(17)}`;
  return fixed.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}
