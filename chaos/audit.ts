import { createHash } from 'node:crypto';
import { z } from 'zod';
import { keyKinds } from './actors/key-kinds.js';
import { validate } from './actors/key-life.js';
import { judgeRefresh, me, refreshOf } from './actors/sessions.js';
import type { Credential, Ledger, Session, User } from './ledger.js';
import type { Load } from './load.js';
import { randomAddress } from './random.js';

const MAX_ASKED = 60;

/** The primary, queried without the service. */
interface Primary {
  query(sql: string, values: readonly unknown[]): Promise<unknown[]>;
}

const credentialRow = z.object({ id: z.string(), revoked_at: z.date().nullable(), key_digest: z.instanceof(Buffer) });
const userRow = z.object({ id: z.string(), is_active: z.boolean() });
const sessionRow = z.object({ id: z.string(), ended_at: z.date().nullable(), generation: z.int() });

/**
 * Checks after the recovery that every acknowledged write is in the database, and that the service's responses agree
 * with it.
 */
export async function audit(postgres: Primary, load: Load): Promise<void> {
  const { ledger } = load;
  for (const kind of Object.values(keyKinds)) {
    const credentials = ledger.credentials.filter((credential) => credential.kind === kind);
    const rows = await readRows(postgres, kind.table, credentialRow, credentials);
    for (const credential of credentials)
      reportLoss(load, credential.key.name, credentialLoss(credential, rows.get(credential.id)));
  }
  const users = await readRows(postgres, 'users', userRow, ledger.users);
  for (const user of ledger.users) reportLoss(load, `user ${user.id}`, userLoss(user, users.get(user.id)));
  const sessions = await readRows(postgres, 'sessions', sessionRow, ledger.sessions);
  for (const session of ledger.sessions)
    reportLoss(load, `session ${session.id}`, sessionLoss(session, sessions.get(session.id)));
  await askForWhatLives(load, ledger);
}

async function readRows<Row extends { readonly id: string }>(
  postgres: Primary,
  table: string,
  row: z.ZodObject & z.ZodType<Row>,
  entries: readonly { readonly id: string }[],
): Promise<ReadonlyMap<string, Row>> {
  const ids = entries.map(({ id }) => id);
  const columns = Object.keys(row.shape).join(', ');
  const found = await postgres.query(`SELECT ${columns} FROM ${table} WHERE id = ANY($1)`, [ids]);
  return new Map(found.map((one) => row.parse(one)).map((one) => [one.id, one]));
}

function reportLoss({ record }: Load, what: string, loss: string | undefined): void {
  if (loss !== undefined) record.addLostWrite(`${what}: ${loss}`);
}

function credentialLoss(
  { isRevoked, keyIsDoubtful, key }: Credential,
  row: z.output<typeof credentialRow> | undefined,
): string | undefined {
  if (!row) return 'issued, but missing';
  if (isRevoked && !row.revoked_at) return 'revoked, but not in the database';
  const digest = createHash('sha256').update(key.text).digest();
  if (!keyIsDoubtful && !row.key_digest.equals(digest)) return 'rotated, but the database has another key';
  return undefined;
}

function userLoss(
  { isActive, isDoubtful, deletion }: User,
  row: z.output<typeof userRow> | undefined,
): string | undefined {
  if (!row) return deletion ? undefined : 'registered, but missing';
  if (deletion === 'acknowledged') return 'deleted, but still there';
  if (!isDoubtful && row.is_active !== isActive) return `should be ${isActive ? 'active' : 'disabled'}, but is not`;
  return undefined;
}

function sessionLoss(
  { life, generation, user }: Session,
  row: z.output<typeof sessionRow> | undefined,
): string | undefined {
  if (!row) return user.deletion ? undefined : 'started, but missing';
  if (life.isOver && !row.ended_at) return 'ended, but still live';
  if (row.generation < generation)
    return `refreshed ${generation} times, but only ${row.generation} are in the database`;
  return undefined;
}

/** The newest live credentials must still work, and a refresh that got no response must get one now. */
async function askForWhatLives(load: Load, { credentials, sessions }: Ledger): Promise<void> {
  const isGood = ({ keyIsDoubtful, key: { life } }: Credential): boolean =>
    !keyIsDoubtful && !life.isOver && !life.isDoubtful;
  for (const credential of credentials.filter(isGood).slice(-MAX_ASKED))
    await validate(load, credential, { from: randomAddress() });
  for (const session of sessions.filter(({ life }) => !life.isOver && !life.isDoubtful).slice(-MAX_ASKED)) {
    await me(load, session);
    judgeRefresh(load, session, await load.ask(refreshOf(session)));
  }
}
