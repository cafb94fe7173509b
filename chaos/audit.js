import { createHash } from 'node:crypto';
import { kinds } from './actors/key-kinds.js';
import { validate } from './actors/key-life.js';
import { me, refreshOf } from './actors/sessions.js';
import { someAddress } from './addresses.js';

const MAX_ASKED = 60;

/** After the recovery: every acknowledged write is in the database, and the service's responses agree with it. */
export async function audit({ postgres, ledger, load, record }) {
  const rows = async (table, columns, ids) =>
    new Map(
      (await postgres.query(`SELECT id, ${columns} FROM ${table} WHERE id = ANY($1)`, [ids])).map((row) => [
        row.id,
        row,
      ]),
    );
  for (const kind of Object.values(kinds)) {
    const mine = ledger.credentials.filter((credential) => credential.kind === kind);
    const found = await rows(kind.table, 'revoked_at, key_digest', idsOf(mine));
    for (const credential of mine)
      lost(record, credential.key.name, credentialLoss(credential, found.get(credential.id)));
  }
  const users = await rows('users', 'is_active', idsOf(ledger.users));
  for (const user of ledger.users) lost(record, `user ${user.id}`, userLoss(user, users.get(user.id)));
  const sessions = await rows('sessions', 'ended_at, generation', idsOf(ledger.sessions));
  for (const session of ledger.sessions)
    lost(record, `session ${session.id}`, sessionLoss(session, sessions.get(session.id)));
  await askForWhatLives(load, ledger);
}

const idsOf = (entries) => entries.map(({ id }) => id);

function lost(record, what, loss) {
  if (loss) record.lostWrite(`${what}: ${loss}`);
}

function credentialLoss({ isRevoked, keyIsDoubtful, key }, row) {
  if (!row) return 'minted, but missing';
  if (isRevoked && !row.revoked_at) return 'revoked, but not in the database';
  const digest = createHash('sha256').update(key.text).digest();
  if (!keyIsDoubtful && !row.key_digest.equals(digest)) return 'rotated, but the database has another key';
  return undefined;
}

function userLoss({ isActive, isDoubtful }, row) {
  if (!row) return 'registered, but missing';
  if (!isDoubtful && row.is_active !== isActive) return `should be ${isActive ? 'active' : 'disabled'}, but is not`;
  return undefined;
}

function sessionLoss({ life, generation }, row) {
  if (!row) return 'started, but missing';
  if (life.isOver && !row.ended_at) return 'ended, but still live';
  if (row.generation < generation)
    return `refreshed ${generation} times, but only ${row.generation} are in the database`;
  return undefined;
}

/** The newest live credentials still work; a refresh that had no response before has one now. */
async function askForWhatLives(load, { credentials, sessions }) {
  const newest = (entries) => entries.slice(-MAX_ASKED);
  const good = ({ keyIsDoubtful, key: { life } }) => !keyIsDoubtful && !life.isOver && !life.isDoubtful;
  for (const credential of newest(credentials.filter(good)))
    await validate(load, credential, credential.key, someAddress());
  for (const session of newest(sessions.filter(({ life }) => !life.isOver && !life.isDoubtful))) {
    await me(load, session);
    load.judge('refresh', `session ${session.id}`, session.life, await load.ask(refreshOf(session)));
  }
}
