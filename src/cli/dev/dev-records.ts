// What `platform-auth dev` makes of the map: the records of its database, and the variables of each service.
import type { Client } from 'pg';
import { toCredentialVariables } from '../../foundation/common/names.js';
import type { Variables } from '../../foundation/config/environment.js';
import { computeDigest } from '../../foundation/crypto/secret.js';
import { isSecretKeyNeeded, listPublicSettings, type TokenRules } from '../platform/environment-files.js';
import { OWN_NAME, type MappedService } from '../platform/platform-map.js';
import { DEV_NODE, DEV_SECRETS, DEV_USER, getDevAdminKey, getDevCredential } from './fixed-values.js';

/** A key that a developer rotated, revoked or let expire gets its fixed value back at the next start. */
const KEY_AS_NEW = `key_digest = excluded.key_digest, previous_key_digest = NULL, previous_key_expires_at = NULL,
  rotated_at = NULL, expires_at = NULL, revoked_at = NULL, overlap_ended_at = NULL, updated_at = now()`;

const SET_USER = `INSERT INTO users (id, email, password_hash, is_active, password_changed_at, created_at, updated_at)
  VALUES ($1, $2, $3, true, now(), now(), now())
  ON CONFLICT (id) DO UPDATE
  SET email = excluded.email, password_hash = excluded.password_hash, is_active = true, updated_at = now()`;
const SET_HOUSEHOLD = `INSERT INTO households (id, created_at, updated_at) VALUES ($1, now(), now())
  ON CONFLICT (id) DO NOTHING`;
const SET_MEMBER = `INSERT INTO household_members (household_id, user_id, role, since) VALUES ($1, $2, 'admin', now())
  ON CONFLICT (household_id, user_id) DO UPDATE SET role = excluded.role`;
const SET_NODE = `INSERT INTO nodes (id, household_id, room, name, targets, key_digest, created_at, updated_at)
  VALUES ($1, $2, $3, $4, $5, $6, now(), now())
  ON CONFLICT (id) DO UPDATE SET targets = excluded.targets, ${KEY_AS_NEW}`;
const SET_CREDENTIAL = `INSERT INTO app_credentials (id, caller, target, scopes, for_users, key_digest, created_at, updated_at)
  VALUES ($1, $2, $3, $4, $5, $6, now(), now())
  ON CONFLICT (id) DO UPDATE SET scopes = excluded.scopes, for_users = excluded.for_users, ${KEY_AS_NEW}`;
const REVOKE_OTHERS =
  'UPDATE app_credentials SET revoked_at = now() WHERE revoked_at IS NULL AND id <> ALL ($1::uuid[])';

/** Makes the fixed user with a household, its fixed node, and exactly the app credentials of the map. Nothing is audited. */
export async function writeDevRecords(client: Client, services: readonly MappedService[]): Promise<void> {
  const credentials = services.flatMap(({ name, calls, scopes, forUsers }) =>
    calls.map((target) => ({
      ...getDevCredential(name, target),
      scopes: scopes[target] ?? null,
      isForUsers: forUsers[target] ?? false,
    })),
  );
  // The first service of a map is auth.
  const targets = services[0]?.nodeTargets ?? null;
  const { householdId, room, name } = DEV_NODE;
  await client.query('BEGIN');
  await client.query(SET_USER, [DEV_USER.id, DEV_USER.email, DEV_USER.passwordHash]);
  await client.query(SET_HOUSEHOLD, [householdId]);
  await client.query(SET_MEMBER, [householdId, DEV_USER.id]);
  await client.query(SET_NODE, [DEV_NODE.id, householdId, room, name, targets, computeDigest(DEV_NODE.key)]);
  await client.query(REVOKE_OTHERS, [credentials.map(({ id }) => id)]);
  for (const { id, caller, target, scopes, isForUsers, key } of credentials)
    await client.query(SET_CREDENTIAL, [id, caller, target, scopes, isForUsers, computeDigest(key)]);
  await client.query('COMMIT');
}

/** @returns what `init` would write into the environment file of a service, with the fixed secrets */
export function listDevVariables(service: MappedService, rules: TokenRules): Variables {
  const { name, calls, adminEndpoints } = service;
  return {
    ...(isSecretKeyNeeded(service, rules) && { SECRET_KEY: DEV_SECRETS.SECRET_KEY }),
    ...((name === OWN_NAME || adminEndpoints) && { ADMIN_API_KEY: getDevAdminKey(name) }),
    ...listPublicSettings(service, rules),
    ...Object.fromEntries(calls.flatMap((target) => listCredential(name, target))),
  };
}

function listCredential(caller: string, target: string): [name: string, value: string][] {
  const names = toCredentialVariables(target);
  const { id, key } = getDevCredential(caller, target);
  return [
    [names.id, id],
    [names.key, key],
  ];
}
