// The secrets of `platform-auth dev`, the same on every machine, so that a colleague pastes them once. They are public:
// each contains DEV_MARK, and production does not start with one.
import { DEV_MARK } from '../../foundation/config/variable-kinds.js';
import { KEY_KINDS } from '../../foundation/common/key-kinds.js';
import { EXAMPLES } from '../../foundation/common/names.js';
import { toUuid } from '../../foundation/common/ids.js';
import { appendChecksum, computeDigest, SECRET_LENGTH } from '../../foundation/crypto/secret.js';

const ID_BYTES = 16;

function makeSecret(label: string): string {
  return (DEV_MARK + computeDigest(`${DEV_MARK} ${label}`).toString('base64url')).slice(0, SECRET_LENGTH);
}

function makeKey(prefix: string, label: string): string {
  return appendChecksum(prefix + makeSecret(label));
}

/** @returns a UUIDv8 (RFC 9562 §5.8) */
function makeId(label: string): string {
  const bytes = computeDigest(`${DEV_MARK} id ${label}`).subarray(0, ID_BYTES);
  bytes.writeUInt8((bytes.readUInt8(6) & 0x0f) | 0x80, 6);
  bytes.writeUInt8((bytes.readUInt8(8) & 0x3f) | 0x80, 8);
  return toUuid(bytes) ?? '';
}

export const DEV_SECRETS = {
  SECRET_KEY: makeSecret('SECRET_KEY'),
  MASTER_KEY: makeSecret('MASTER_KEY'),
  AUDIT_SEAL_KEY: makeSecret('AUDIT_SEAL_KEY'),
};

export const DEV_USER = {
  id: makeId('user'),
  email: EXAMPLES.email,
  password: EXAMPLES.password,
  /** bcrypt of the password, of the cost with which this mode starts the service. */
  passwordHash: '$2b$10$q2kPdMBxNoYCtBeNk8yreef/O1aPAnYIoLTv7ilik/K567LGurnue',
  cost: 10,
};

export const DEV_NODE = {
  id: makeId('node'),
  key: makeKey('pa_node_', 'node'),
  householdId: EXAMPLES.householdId,
  room: EXAMPLES.room,
  name: EXAMPLES.name,
};

/** The ADMIN_API_KEY of a service: each has its own, so that none opens the doors of another. */
export function getDevAdminKey(service: string): string {
  return makeKey(KEY_KINDS.operator.keyPrefix, service);
}

interface DevCredential {
  readonly caller: string;
  readonly target: string;
  readonly id: string;
  readonly key: string;
}

export function getDevCredential(caller: string, target: string): DevCredential {
  const label = `${caller} -> ${target}`;
  return { caller, target, id: makeId(label), key: makeKey('pa_app_', label) };
}
