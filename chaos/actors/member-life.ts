import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import type { Told } from '../acts.js';
import type { Answer } from '../client.js';
import { bearerOf, Life, type Membership, type Session } from '../ledger.js';
import type { Load } from '../load.js';
import { pickOne } from '../random.js';
import { verifyMembership } from './verifiers.js';

const PATH = '/internal/validate-user';
/** Joining does not wait: for a lease (500 ms by default) a verifier may remember an answer without the household. */
const JOIN_LAG_MS = 600;
const createdHousehold = z.object({ id: z.string() });
const households = z.object({ households: z.array(z.object({ id: z.string(), role: z.string() })) });

/**
 * A user lives in a household that the user or an operator made. The operator demotes the user, removes the user, and
 * deletes the household; each step is checked everywhere.
 */
export async function liveMember(load: Load): Promise<void> {
  const membership = await pickOne([joinHousehold, createHousehold])(load, pickOne(load.kept.sessions));
  if (!membership) {
    await load.think(100);
    return;
  }
  await sleep(JOIN_LAG_MS);
  await judgeMembershipEverywhere(load, membership);
  const { household, session } = membership;
  const path = `/households/${household}/members/${session.user.id}`;
  const member = { user_id: session.user.id, role: 'member' };
  membership.asAdmin.markEnding();
  const attempt = (): Promise<Answer> => load.askAsAdmin('PATCH', path, { role: 'member' });
  const demote = (): Promise<boolean> => load.insist('admin', `demoting in ${household}`, attempt, 200);
  if (!(await load.ledger.perform({ 'household.member_changed': member }, household, demote))) return;
  membership.asAdmin.markEnded();
  await judgeMembershipEverywhere(load, membership);
  membership.asMember.markEnding();
  const removal = { 'household.member_removed': { ...member, reason: 'removed' } };
  if (!(await performDeletion(load, path, removal, household))) return;
  membership.asMember.markEnded();
  await judgeMembershipEverywhere(load, membership);
  await performDeletion(load, `/households/${household}?revoke_nodes=true`, { 'household.deleted': {} }, household);
}

function performDeletion(load: Load, path: string, told: Told, household: string): Promise<boolean> {
  const requestDeletion = () => load.insist('admin', `deleting ${path}`, () => load.deleteAsAdmin(path), 204);
  return load.ledger.perform(told, household, requestDeletion);
}

/** @returns undefined when the request was not acknowledged */
async function createHousehold(load: Load, session: Session): Promise<Membership | undefined> {
  const body = { name: 'home' };
  const created = await load.ask({
    path: '/api/v0/households',
    headers: bearerOf(session),
    body,
    from: session.user.from,
  });
  if (!load.acknowledge('household', `creating a household of ${session.user.email}`, created, 201)) return undefined;
  const { id: household } = createdHousehold.parse(created.body);
  const member = { user_id: session.user.id, role: 'admin' };
  load.ledger.addActs({ 'household.created': {}, 'household.member_added': member }, household);
  return { household, session, asMember: new Life(), asAdmin: new Life() };
}

/** @returns undefined when a request was not acknowledged */
export async function joinHousehold(load: Load, session: Session): Promise<Membership | undefined> {
  const household = randomUUID();
  const node = { household_id: household, room: 'hall', name: 'lamp' };
  // The registration of a node makes its household.
  const made = await load.askAsAdmin('POST', '/nodes', node);
  if (!load.acknowledge('admin', `issuing a node of ${household}`, made, 201)) return undefined;
  const member = { user_id: session.user.id, role: 'admin' };
  const join = async (): Promise<boolean> => {
    const answer = await load.askAsAdmin('POST', `/households/${household}/members`, member);
    return load.acknowledge('admin', `joining ${household}`, answer, 201);
  };
  if (!(await load.ledger.perform({ 'household.member_added': member }, household, join))) return undefined;
  return { household, session, asMember: new Life(), asAdmin: new Life() };
}

/** Asks one replica, as a service without a verifier does. */
export async function judgeMembership(load: Load, membership: Membership): Promise<void> {
  judgeAnswer(load, membership, await load.ask({ path: PATH, headers: bearerOf(membership.session) }));
}

/** Asks every replica, and then every verifier. */
async function judgeMembershipEverywhere(load: Load, membership: Membership): Promise<void> {
  const answers = await load.askEverywhere({ path: PATH, headers: bearerOf(membership.session) });
  for (const answer of answers) judgeAnswer(load, membership, answer);
  await Promise.all(load.verifiers.map((verifier) => verifyMembership(load, verifier, membership)));
}

function judgeAnswer(load: Load, { household, asMember, asAdmin }: Membership, answer: Answer): void {
  const found =
    answer.status === 200 ? households.parse(answer.body).households.find(({ id }) => id === household) : undefined;
  const judge = (what: string, life: Life, isRight: boolean): void => {
    // The token is valid, and the answer refuses the membership.
    const verdict = answer.status === 200 && !isRight ? ({ ...answer, status: 403 } as const) : answer;
    load.judge('validate-user', `${what} of household ${household}`, life, verdict);
  };
  judge('a member', asMember, found !== undefined);
  judge('an admin', asAdmin, found?.role === 'admin');
}
