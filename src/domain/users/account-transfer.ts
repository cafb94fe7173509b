/**
 * Accounts that move from or to another system: the lines of the file, and the statements that move them in bulk, for
 * the command line. Each run is recorded in the audit log. Invariant: no message contains any part of a line.
 */
import { Injectable } from '@nestjs/common';
import { CsvError, parse as parseCsv } from 'csv-parse/sync';
import { DataSource, type EntityManager } from 'typeorm';
import * as z from 'zod';
import { COMMAND_LINE } from '../../foundation/access/actor.js';
import { HOUSEHOLD_ROLES, type HouseholdRole } from '../../foundation/common/names.js';
import { AuditLog } from '../audit/audit-log.js';
import { addDays } from '../../foundation/common/clock.js';
import { isLabel, parseNewEmail } from '../../foundation/common/fields.js';
import { createId, isId, isStandardId } from '../../foundation/common/ids.js';
import { parseJson } from '../../foundation/common/json.js';
import type { AuditEventName } from '../../foundation/common/security-events.js';
import { MAX_BCRYPT_COST } from '../../foundation/config/limits.js';
import { ComparedClock } from '../../foundation/database/compared-clock.js';
import { MAX_HOUSEHOLDS_BY_OPERATOR, MAX_MEMBERS } from '../households/members.service.js';
import { ForeignHashError, formatPbkdf2, parseForeignHash } from '../passwords/foreign-hash.js';
import { hasPassword, NO_PASSWORD, OWN_PREFIX, type PasswordHash } from '../passwords/password-hasher.js';

export interface PortableAccount {
  readonly id: string;
  readonly email: string;
  readonly passwordHash: PasswordHash;
  readonly isActive: boolean;
  readonly isEmailVerified: boolean;
  readonly createdAt: Date;
  readonly households: readonly PortableMembership[];
}

interface PortableMembership {
  readonly id: string;
  readonly name: string | null;
  readonly role: HouseholdRole;
}

export class RefusedLineError extends Error {
  override readonly name = 'RefusedLineError';

  constructor(
    message: string,
    readonly code: string,
  ) {
    super(message);
  }
}

/** Marks a hash that platform-auth made, which alone reduces long passwords before bcrypt. */
const MADE_HERE = 'platform-auth';
const MAX_HASH_LENGTH = 1_000;
const EMAIL_REASON = 'email must be an address that registration accepts';
const HASH_REASON = 'password_hash must be text, or a credential of Keycloak';

const ID_REASON = 'id must be a UUID of RFC 9562';
const HOUSEHOLDS_REASON =
  `households must be a list of at most ${MAX_HOUSEHOLDS_BY_OPERATOR} {id, name, role}, with a UUID, a name of 1 to ` +
  '100 visible characters in one line (or none), and the role admin or member';
const membership = z.strictObject({
  id: z
    .string()
    .refine(isId)
    .transform((id) => id.toLowerCase()),
  name: z.string().refine(isLabel).nullable().default(null),
  role: z.enum(HOUSEHOLD_ROLES),
});

/** A credential in a realm export of Keycloak. Both fields contain JSON. */
const keycloakCredential = z.object({ secretData: z.string(), credentialData: z.string() });
const keycloakSecret = z.object({ value: z.string(), salt: z.string() });
const keycloakParameters = z.object({ hashIterations: z.number(), algorithm: z.string() });

const accountLine = z.strictObject({
  id: z.string(ID_REASON).refine(isStandardId, ID_REASON).optional(),
  email: z.string(EMAIL_REASON).transform((text, context) => {
    const email = parseNewEmail(text);
    if (email === undefined) context.addIssue(EMAIL_REASON);
    return email ?? z.NEVER;
  }),
  password_hash: z.union([z.string().max(MAX_HASH_LENGTH, HASH_REASON), keycloakCredential], HASH_REASON).nullish(),
  made_by: z.literal(MADE_HERE, `made_by may only be "${MADE_HERE}"`).optional(),
  is_active: z.boolean('is_active must be true or false').optional(),
  email_verified: z.boolean('email_verified must be true or false').optional(),
  created_at: z.iso
    .datetime({
      offset: true,
      error: 'created_at must be a date and time with an offset, such as 2020-01-31T12:00:00Z (ISO 8601)',
    })
    .optional(),
  households: z
    .unknown()
    .transform((given, context) => {
      const { data } = z
        .array(membership)
        .max(MAX_HOUSEHOLDS_BY_OPERATOR)
        .safeParse(given ?? []);
      if (!data) context.addIssue(HOUSEHOLDS_REASON);
      return data ?? z.NEVER;
    })
    .optional(),
});
type AccountLine = z.infer<typeof accountLine>;

const FIELDS = Object.keys(accountLine.shape);
const UNKNOWN_FIELD = `it has an unknown field; the known ones are ${FIELDS.join(', ')}`;

/** For CSV, the columns that its header names. */
export type LineFormat = 'json' | readonly string[];

/**
 * Recognizes the format of a file by its first line.
 * @param text undefined for a line that is too long or is not UTF-8
 * @throws {RefusedLineError} for an unreadable format, so that the user gets one reason instead of one for each line
 */
export function recognizeFormat(text = ''): LineFormat {
  const given = parseJson(text);
  const isObject = typeof given === 'object' && given !== null && !Array.isArray(given);
  const columns = isObject ? Object.keys(given) : (splitCsvLine(text) ?? []);
  const areKnown = columns.every((name) => FIELDS.includes(name)) && new Set(columns).size === columns.length;
  if (areKnown && isObject) return 'json';
  if (areKnown && columns.includes('email')) return columns;
  throw new RefusedLineError(
    'the first line is neither a JSON object (one for each account and line) nor a CSV header, in UTF-8, ' +
      `with these fields: ${FIELDS.join(', ')}. Only email is required`,
    'unknown_format',
  );
}

/** @throws {RefusedLineError} */
export function parseAccountLine(text: string, now: Date, format: LineFormat = 'json'): PortableAccount {
  const line = parseFields(format === 'json' ? parseJson(text) : parseCsvLine(text, format));
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
    households: line.households ?? [],
  };
}

export function formatAccountLine(account: PortableAccount): string {
  return JSON.stringify({
    id: account.id,
    email: account.email,
    password_hash: hasPassword(account.passwordHash) ? account.passwordHash : null,
    ...(account.passwordHash.startsWith(OWN_PREFIX) && { made_by: MADE_HERE }),
    is_active: account.isActive,
    email_verified: account.isEmailVerified,
    created_at: account.createdAt.toISOString(),
    ...(account.households.length > 0 && { households: account.households }),
  });
}

function parseFields(given: unknown): AccountLine {
  const { success, data, error } = accountLine.safeParse(given);
  if (success) return data;
  const [issue] = error.issues;
  if (issue?.code === 'unrecognized_keys') throw new RefusedLineError(UNKNOWN_FIELD, 'unknown_field');
  const [field] = issue?.path ?? [];
  if (!issue || field === undefined) throw new RefusedLineError('it is not a JSON object', 'not_json');
  const isMissing = !(field in (given as object));
  throw new RefusedLineError(isMissing ? `${String(field)} is missing` : issue.message, `${String(field)}_invalid`);
}

/** A line is a whole record, because no field of an account contains a line feed. */
function splitCsvLine(text: string): string[] | undefined {
  try {
    const [record, ...others] = parseCsv(text.replace(/\r$/, ''));
    return others.length === 0 ? record : undefined;
  } catch (error) {
    if (error instanceof CsvError) return undefined;
    throw error;
  }
}

function parseCsvLine(text: string, columns: readonly string[]): unknown {
  const values = splitCsvLine(text);
  if (values?.length !== columns.length)
    throw new RefusedLineError('it has other fields than the header: quote a field that contains a comma', 'not_csv');
  const fields = columns.map((name, index) => [name, values[index]] as const).filter(([, value]) => value !== '');
  return Object.fromEntries(
    fields.map(([name, value]) => [name, value === 'true' || (value === 'false' ? false : value)]),
  );
}

function parseHash({ password_hash: given, made_by: madeBy }: AccountLine): PasswordHash {
  // Django writes `!` and random characters for an account without a password.
  if (given == null || given === '' || (typeof given === 'string' && given.startsWith('!'))) return NO_PASSWORD;
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

/** Skips accounts whose address or id exists, so that a repeated import continues where the previous one ended. */
const INSERT_ACCOUNTS = `INSERT INTO users
    (id, email, password_hash, is_active, email_verified_at, created_at, updated_at)
  SELECT id, email, password_hash, is_active, CASE WHEN is_email_verified THEN $7::timestamptz END, created_at, $7
  FROM unnest($1::uuid[], $2::text[], $3::text[], $4::boolean[], $5::boolean[], $6::timestamptz[])
    AS given(id, email, password_hash, is_active, is_email_verified, created_at)
  ON CONFLICT DO NOTHING RETURNING id, email, password_hash AS "passwordHash"`;
const INSERT_HOUSEHOLDS = `INSERT INTO households (id, name, created_at, updated_at)
  SELECT DISTINCT ON (id) id, name, $3::timestamptz, $3 FROM unnest($1::uuid[], $2::text[]) AS given(id, name) ORDER BY id
  ON CONFLICT DO NOTHING`;
const LOCK_HOUSEHOLDS = 'SELECT FROM households WHERE id = ANY ($1::uuid[]) ORDER BY id FOR NO KEY UPDATE';
const INSERT_MEMBERSHIPS = `INSERT INTO household_members (household_id, user_id, role, since)
  SELECT household_id, user_id, role, $4 FROM unnest($1::uuid[], $2::uuid[], $3::text[]) AS given(household_id, user_id, role)
  ON CONFLICT DO NOTHING`;
const FIND_OVERFULL = `SELECT FROM household_members WHERE household_id = ANY ($1::uuid[])
  GROUP BY household_id HAVING count(*) > ${MAX_MEMBERS} LIMIT 1`;

const FIND_NEW = `SELECT id, email, password_hash AS "passwordHash"
  FROM unnest($1::uuid[], $2::text[], $3::text[]) WITH ORDINALITY AS given(id, email, password_hash, line)
  WHERE NOT EXISTS (SELECT FROM users WHERE users.email = given.email)
    AND NOT EXISTS (SELECT FROM users WHERE users.id = given.id)
  ORDER BY line`;

const READ_ACCOUNTS = `SELECT id, email, password_hash AS "passwordHash", is_active AS "isActive",
    email_verified_at IS NOT NULL AS "isEmailVerified", created_at AS "createdAt",
    (SELECT COALESCE(json_agg(json_build_object('id', households.id, 'name', name, 'role', role) ORDER BY households.id), '[]')
     FROM household_members JOIN households ON households.id = household_id WHERE user_id = users.id) AS households
  FROM users WHERE $1::uuid IS NULL OR id > $1 ORDER BY id LIMIT $2`;

const PAGE_SIZE = 1_000;
/** Limits the addresses and ids that a dry run remembers, to about 100 MB. Beyond it, a repeated line counts as new. */
const MAX_COUNTED = 1_000_000;

type AddedAccount = Pick<PortableAccount, 'id' | 'email' | 'passwordHash'>;

export interface ImportCounts {
  imported: number;
  /** How many of the imported accounts have no password. */
  without_password: number;
  existing: number;
  refused: number;
}

/**
 * Records an import with its first batch, so that a killed run is visible, and again with its counts at the end. An
 * export is recorded before its first page.
 */
@Injectable()
export class AccountTransfer {
  private readonly runId = createId();
  private isStarted = false;
  private readonly counted = new Set<string>();

  constructor(
    private readonly dataSource: DataSource,
    private readonly audit: AuditLog,
    private readonly clock: ComparedClock,
  ) {}

  /** @throws {RefusedLineError} household_full, and inserts nothing of the batch */
  async insertAccounts(batch: readonly PortableAccount[]): Promise<AddedAccount[]> {
    return this.dataSource.transaction(async (transaction) => {
      const values = [...toColumns(batch), this.clock.now()];
      const rows = await transaction.query<AddedAccount[]>(INSERT_ACCOUNTS, values);
      await this.insertMemberships(transaction, selectAdded(batch, rows));
      if (rows.length > 0 && !this.isStarted) {
        await this.recordRun(transaction, 'users.import_started', {});
        this.isStarted = true;
      }
      return rows;
    });
  }

  /** Makes the households that do not exist. The limits are those of operators. */
  private async insertMemberships(transaction: EntityManager, accounts: readonly PortableAccount[]): Promise<void> {
    const members = accounts.flatMap(({ id: userId, households }) => households.map((each) => ({ ...each, userId })));
    if (members.length === 0) return;
    const ids = members.map(({ id }) => id);
    const now = this.clock.now();
    await transaction.query(INSERT_HOUSEHOLDS, [ids, members.map(({ name }) => name), now]);
    await transaction.query(LOCK_HOUSEHOLDS, [ids]);
    const columns = [members.map(({ userId }) => userId), members.map(({ role }) => role)];
    await transaction.query(INSERT_MEMBERSHIPS, [ids, ...columns, now]);
    if ((await transaction.query<unknown[]>(FIND_OVERFULL, [ids])).length > 0)
      throw new RefusedLineError(`a household would have more than ${MAX_MEMBERS} members`, 'household_full');
  }

  /** @returns the accounts that an import would add, given those of the earlier batches */
  async findNewAccounts(batch: readonly PortableAccount[]): Promise<AddedAccount[]> {
    const given = [batch.map(({ id }) => id), batch.map(({ email }) => email), batch.map((each) => each.passwordHash)];
    const found = await this.dataSource.query<AddedAccount[]>(FIND_NEW, given);
    return found.filter(({ id, email }) => {
      if (this.counted.has(id) || this.counted.has(email)) return false;
      if (this.counted.size < MAX_COUNTED) this.counted.add(id).add(email);
      return true;
    });
  }

  async finishImport(counts: ImportCounts): Promise<void> {
    if (!this.isStarted) return;
    await this.dataSource.transaction((transaction) => this.recordRun(transaction, 'users.imported', { ...counts }));
  }

  /** Reads accounts in the order of their ids. It may miss accounts that register meanwhile. */
  async *readAccounts(): AsyncGenerator<PortableAccount[]> {
    await this.dataSource.transaction(async (transaction) => {
      const [row] = await transaction.query<{ count: number }[]>('SELECT count(*)::integer AS count FROM users');
      await this.recordRun(transaction, 'users.exported', { accounts: row?.count ?? 0 });
    });
    let after: string | null | undefined = null;
    while (after !== undefined) {
      const page: PortableAccount[] = await this.dataSource.query(READ_ACCOUNTS, [after, PAGE_SIZE]);
      if (page.length > 0) yield page;
      after = page.at(-1)?.id;
    }
  }

  private async recordRun(
    transaction: EntityManager,
    event: Extract<AuditEventName, `users.${string}`>,
    details: Record<string, unknown>,
  ): Promise<void> {
    const time = this.clock.now();
    await this.audit.record(transaction, { event, actor: COMMAND_LINE, time, subject: this.runId, details });
  }
}

/** A batch may repeat an id or an address. Only the first of such lines was added, so that the others change nothing. */
function selectAdded(batch: readonly PortableAccount[], rows: readonly AddedAccount[]): PortableAccount[] {
  const emailsById = new Map(rows.map(({ id, email }) => [id, email]));
  return batch.filter(({ id, email }) => emailsById.get(id) === email && emailsById.delete(id));
}

const COLUMNS = ['id', 'email', 'passwordHash', 'isActive', 'isEmailVerified', 'createdAt'] as const;

function toColumns(batch: readonly PortableAccount[]): unknown[] {
  return COLUMNS.map((name) => batch.map((account) => account[name]));
}
