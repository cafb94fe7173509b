import { z } from 'zod';
import { addDays } from '../common/clock.js';
import { parseNewEmail } from '../common/fields.js';
import { createId, isId } from '../common/ids.js';
import { MAX_BCRYPT_COST } from '../config/limits.js';
import { ForeignHashError, formatPbkdf2, parseForeignHash } from '../crypto/foreign-hash.js';
import { OWN_PREFIX, type PasswordHash } from '../crypto/password-hasher.js';

/** An account as it comes from another system, or leaves for one. */
export interface PortableAccount {
  readonly id: string;
  readonly email: string;
  readonly passwordHash: PasswordHash;
  readonly isActive: boolean;
  readonly isEmailVerified: boolean;
  readonly createdAt: Date;
}

/** Why a line of an import is refused. The message contains nothing of the line. */
export class RefusedLineError extends Error {
  override readonly name = 'RefusedLineError';

  constructor(
    message: string,
    readonly code: string,
  ) {
    super(message);
  }
}

/** The mark of a hash that a platform-auth made: it reduces long passwords before bcrypt, as others do not. */
const MADE_HERE = 'platform-auth';
const MAX_HASH_LENGTH = 1_000;

/** A credential of the realm export of Keycloak. Both texts are JSON. */
const keycloakCredential = z.object({ secretData: z.string(), credentialData: z.string() });
const keycloakSecret = z.object({ value: z.string(), salt: z.string() });
const keycloakParameters = z.object({ hashIterations: z.number(), algorithm: z.string() });

const accountLine = z.strictObject({
  id: z.string().refine(isId).optional(),
  email: z.string().transform((text, context) => {
    const email = parseNewEmail(text);
    if (email === undefined) context.addIssue('not an address');
    return email ?? z.NEVER;
  }),
  password_hash: z.union([z.string().max(MAX_HASH_LENGTH), keycloakCredential]),
  made_by: z.literal(MADE_HERE).optional(),
  is_active: z.boolean().optional(),
  email_verified: z.boolean().optional(),
  created_at: z.iso.datetime({ offset: true }).optional(),
});
type AccountLine = z.infer<typeof accountLine>;

const FIELD_REASONS: Readonly<Record<string, string>> = {
  id: 'id must be a UUID',
  email: 'email must be an address that registration accepts',
  password_hash: 'password_hash must be text, or a credential of Keycloak',
  made_by: `made_by may only be "${MADE_HERE}"`,
  is_active: 'is_active must be true or false',
  email_verified: 'email_verified must be true or false',
  created_at: 'created_at must be a date and time with an offset, such as 2020-01-31T12:00:00Z (ISO 8601)',
};
const UNKNOWN_FIELD = `it has an unknown field; the known ones are ${Object.keys(FIELD_REASONS).join(', ')}`;

/**
 * @param text one line of an import
 * @throws {RefusedLineError}
 */
export function parseAccountLine(text: string, now: Date): PortableAccount {
  const line = parseFields(text);
  const createdAt = line.created_at === undefined ? now : new Date(line.created_at);
  if (createdAt.getTime() < 0 || createdAt > addDays(now, 1))
    throw new RefusedLineError('created_at must be between 1970 and now', 'created_at_invalid');
  return {
    id: line.id?.toLowerCase() ?? createId(),
    email: line.email,
    passwordHash: parseHash(line),
    isActive: line.is_active ?? true,
    isEmailVerified: line.email_verified ?? false,
    createdAt,
  };
}

/** @returns a line that {@link parseAccountLine} reads: JSON without a line break */
export function formatAccountLine(account: PortableAccount): string {
  return JSON.stringify({
    id: account.id,
    email: account.email,
    password_hash: account.passwordHash,
    ...(account.passwordHash.startsWith(OWN_PREFIX) && { made_by: MADE_HERE }),
    is_active: account.isActive,
    email_verified: account.isEmailVerified,
    created_at: account.createdAt.toISOString(),
  });
}

function parseFields(text: string): AccountLine {
  const given = parseJson(text);
  const { success, data, error } = accountLine.safeParse(given);
  if (success) return data;
  const [issue] = error.issues;
  if (issue?.code === 'unrecognized_keys') throw new RefusedLineError(UNKNOWN_FIELD, 'unknown_field');
  const field = String(issue?.path[0] ?? '');
  const reason = FIELD_REASONS[field];
  if (reason === undefined) throw new RefusedLineError('it is not a JSON object', 'not_json');
  const isMissing = !(field in (given as object));
  throw new RefusedLineError(isMissing ? `${field} is missing` : reason, `${field}_invalid`);
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function parseHash({ password_hash: given, made_by: madeBy }: AccountLine): PasswordHash {
  try {
    const text = typeof given === 'string' ? given : fromKeycloak(given);
    parseForeignHash(text, madeBy && MAX_BCRYPT_COST);
    const isBcrypt2b = text.startsWith(OWN_PREFIX);
    if (madeBy === undefined) return (isBcrypt2b ? `$2y$${text.slice(OWN_PREFIX.length)}` : text) as PasswordHash;
    if (isBcrypt2b) return text as PasswordHash;
  } catch (error) {
    throw error instanceof ForeignHashError ? new RefusedLineError(error.message, error.code) : error;
  }
  throw new RefusedLineError(`a hash made by ${MADE_HERE} begins with ${OWN_PREFIX}`, 'made_by_invalid');
}

function fromKeycloak({ secretData, credentialData }: z.infer<typeof keycloakCredential>): string {
  const secret = keycloakSecret.safeParse(parseJson(secretData));
  const parameters = keycloakParameters.safeParse(parseJson(credentialData));
  if (!secret.success || !parameters.success)
    throw new ForeignHashError('the credential of Keycloak is malformed', 'hash_malformed');
  const { hashIterations, algorithm } = parameters.data;
  if (algorithm !== 'pbkdf2-sha256' && algorithm !== 'pbkdf2-sha512')
    throw new ForeignHashError('of Keycloak, pbkdf2-sha256 and pbkdf2-sha512 are supported', 'hash_unsupported');
  return formatPbkdf2(algorithm, hashIterations, secret.data.salt, secret.data.value);
}
