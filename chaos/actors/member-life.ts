import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import type { Answer } from '../client.js';
import { bearerOf, Life, type Membership, type Session } from '../ledger.js';
import type { Load } from '../load.js';
import { pickOne } from '../random.js';
import { verifyMembership } from './verifiers.js';

const PATH = '/internal/validate-user';
/** Joining does not wait: for a lease (500 ms by default) a verifier may remember an answer without the household. */
const JOIN_LAG_MS = 600;
const households = z.object({ households: z.array(z.object({ id: z.string(), role: z.string() })) });

/** An operator lets a user live in a household, demotes the user, and removes the user; each step is checked everywhere. */
export async function liveMember(load: Load): Promise<void> {
  const membership = await joinHousehold(load, pickOne(load.kept.sessions));
  if (!membership) {
    await load.think(100);
    return;
  }
  await sleep(JOIN_LAG_MS);
  await judgeMembershipEverywhere(load, membership);
  const path = `/households/${membership.household}/members/${membership.session.user.id}`;
  membership.asAdmin.markEnding();
  const demote = (): Promise<Answer> => load.askAsAdmin('PATCH', path, { role: 'member' });
  if (!(await load.insist('admin', `demoting in ${membership.household}`, demote, 200))) return;
  membership.asAdmin.markEnded();
  await judgeMembershipEverywhere(load, membership);
  membership.asMember.markEnding();
  const remove = async (): Promise<Answer> => {
    const answer = await load.askAsAdmin('DELETE', path);
    // An attempt without a response may have removed the user.
    return answer.status === 404 ? { ...answer, status: 204 } : answer;
  };
  if (!(await load.insist('admin', `removing from ${membership.household}`, remove, 204))) return;
  membership.asMember.markEnded();
  await judgeMembershipEverywhere(load, membership);
}

/** @returns undefined when a request was not acknowledged */
export async function joinHousehold(load: Load, session: Session): Promise<Membership | undefined> {
  const household = randomUUID();
  const node = { household_id: household, room: 'hall', name: 'lamp' };
  // The registration of a node makes its household.
  const made = await load.askAsAdmin('POST', '/nodes', node);
  if (!load.acknowledge('admin', `issuing a node of ${household}`, made, 201)) return undefined;
  const member = { user_id: session.user.id, role: 'admin' };
  const joined = await load.askAsAdmin('POST', `/households/${household}/members`, member);
  if (!load.acknowledge('admin', `joining ${household}`, joined, 201)) return undefined;
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
