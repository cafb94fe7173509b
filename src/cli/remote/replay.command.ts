// `platform-auth replay`: after a restore, repeats the revocations and deletions that an exported audit log records
// since the backup. Idempotent, because it compares the log with the present state.
import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import type { Command } from 'commander';
import { isId } from '../../foundation/common/ids.js';
import { parseJson } from '../../foundation/common/json.js';
import { parsePast } from '../command-options.js';
import type { AuditEventName } from '../../foundation/common/security-events.js';
import { formatTable } from '../tables.js';
import { addYes, CommandFailedError, createConfirm, print } from '../terminal.js';
import { runInParallel, type AdminClient } from './admin-client.js';
import { eventSchema, type ReplayedEvent, type Step } from './replay-plan.js';
import { HouseholdHistory } from './replay-households.js';
import { addRemote, createClient } from './remote-command.js';
import type { AdminUserResponse, SessionResponse } from '../../api/admin/users.admin.controller.js';

const KEYS: Readonly<Partial<Record<AuditEventName, string>>> = {
  'admin.node.revoked': '/nodes',
  'admin.app_credential.revoked': '/app-credentials',
  'admin.operator.revoked': '/operators',
};
const USERS = '/users';
/** The paths of subjects by the event that made them. After a restore those made since the backup are gone. */
const ISSUED: Readonly<Record<string, string>> = {
  'admin.node.issued': '/nodes',
  'node.enrolled': '/nodes',
  'admin.app_credential.issued': '/app-credentials',
  'admin.operator.issued': '/operators',
  'household.created': '/households',
  'user.registered': USERS,
  'admin.user.created': USERS,
};
/** Events that end sessions, some without a `session.ended` of their own. */
const ENDS_SESSIONS =
  /^(session\.(ended|refresh\.reused)|admin\.user\.(sessions_revoked|factors_removed)|user\.(password\.(changed|reset)|totp\.enrolled|passkey\.added))$/;
/** A restore brings back old keys, passwords, addresses and factors, which only an operator or their user can replace. */
const BY_HAND =
  /\.(rotated|rotation_finished|(totp|passkey)\.removed|factors_removed|replaced)$|^user\.(password|email)\.(changed|reset)$|^admin\.(operator|app_credential)\.updated$/;

/** The effects of the events, each with the last time at which it happened to a subject. Events may come in any order. */
class History {
  private readonly times = new Map<string, Map<string, number>>();
  readonly byHand = new Map<string, Set<string>>();
  /** The event that made each subject. */
  readonly issued = new Map<string, string>();
  readonly households = new HouseholdHistory();

  add(event: ReplayedEvent): void {
    const { event: name, subject, time, details } = event;
    // The subject becomes a part of a path, and the file is not trusted.
    if (subject === null || !isId(subject)) return;
    for (const effect of listEffects(event)) {
      const times = this.times.get(effect) ?? new Map<string, number>();
      this.times.set(effect, times.set(subject, Math.max(time, this.findLastTime(effect, subject))));
    }
    this.households.add(event, subject);
    if (Object.hasOwn(ISSUED, name)) this.issued.set(subject, name);
    const isMoved = name === 'admin.user.updated' && details.after?.email !== undefined;
    const isRestricted = name === 'admin.node.updated' && details.after?.targets !== undefined;
    if (isMoved || isRestricted || BY_HAND.test(name)) this.addByHand(name, subject);
  }

  addByHand(event: string, subject: string): void {
    this.byHand.set(event, (this.byHand.get(event) ?? new Set()).add(subject));
  }

  listSubjects(...effects: string[]): string[] {
    return [...new Set(effects.flatMap((effect) => [...(this.times.get(effect)?.keys() ?? [])]))];
  }

  findLastTime(effect: string, subject: string): number {
    return this.times.get(effect)?.get(subject) ?? -Infinity;
  }
}

/** @returns the path of a revoked key's type, or what was done to an account */
function listEffects({ event, details }: ReplayedEvent): string[] {
  const { is_active, email } = (event === 'admin.user.updated' && details.after) || {};
  const effects = [KEYS[event as AuditEventName]];
  if (/^(admin\.)?user\.deleted$/.test(event)) effects.push('delete');
  if (is_active !== undefined) effects.push(is_active ? 'enable' : 'disable');
  // A new address, set by an operator, ends the sessions of the account.
  if (email !== undefined || ENDS_SESSIONS.test(event)) effects.push('end sessions');
  return effects.filter((effect) => effect !== undefined);
}

export function addReplayCommand(root: Command): void {
  const description =
    'After a restore, end again what was ended since the backup: nodes, app credentials, operators, users, sessions, memberships of households; and close every open code.';
  addYes(addRemote(root, 'replay <file>', description, 'audit.ndjson --since 2026-11-23T03:00:00Z'))
    .option('--since <moment>', 'only events since this moment, such as that of the backup', parsePast)
    .option('--dry-run', 'print the plan, and change nothing', false)
    .addHelpText('after', '\nThe file is one of "audit export". Prints its plan and asks. Safe to run again.')
    .action(async (file: string, { since, dryRun }: { since?: string; dryRun: boolean }, command: Command) => {
      const client = createClient(command);
      const history = await readHistory(file, since === undefined ? -Infinity : Date.parse(since));
      const steps = await planSteps(client, history);
      await findGone(client, history);
      const table = formatTable(['action', 'subject', 'path'], steps, { drop: ['path'] });
      if (steps.length > 0 && !dryRun) {
        await createConfirm(command)(`${table}\nThis ends again what is listed (${steps.length}), permanently.`);
        await runInParallel(steps, (step) => carryOut(client, step));
      }
      // What the services know may be of a history that the restore undid, so each has to compare.
      const reset = dryRun ? [] : await resetEvents(client);
      const by_hand = Object.fromEntries([...history.byHand].map(([event, subjects]) => [event, [...subjects]]));
      print(command, { done: !dryRun, steps, by_hand, reset_event_subscriptions: reset }, () => {
        const end = dryRun ? 'Nothing was changed.' : `Ended again: ${steps.length}.`;
        const hints = [...history.byHand].map(([event, { size }]) => `  ${event}: ${size}`);
        const note = hints.length > 0 ? ['Not repeated, see docs/operations/backup.md:', ...hints] : [];
        const events = reset.length > 0 ? [`Compare what they know with the users here: ${reset.join(', ')}.`] : [];
        return [...(dryRun ? [table] : []), end, ...events, ...note].join('\n');
      });
    });
}

async function resetEvents(client: AdminClient): Promise<string[]> {
  const { reset } = await client.post<{ reset: string[] }>('/event-subscriptions/reset', {});
  return reset;
}

async function readHistory(file: string, since: number): Promise<History> {
  const history = new History();
  history.households.noteTime(since);
  let number = 0;
  for await (const line of createInterface({ input: createReadStream(file), crlfDelay: Infinity })) {
    number += 1;
    const event = eventSchema.safeParse(parseJson(line)).data;
    if (!event || Number.isNaN(event.time))
      throw new CommandFailedError(`Line ${number} of ${file} is not an event of "audit export".`, 'file_unusable');
    history.households.noteTime(event.time);
    if (event.time >= since) history.add(event);
  }
  return history;
}

async function planSteps(client: AdminClient, history: History): Promise<Step[]> {
  const steps: Step[] = [];
  for (const path of Object.values(KEYS))
    await runInParallel(history.listSubjects(path), async (id) => {
      const key = await client.find<Readonly<Record<string, string | null>>>(`${path}/${id}`);
      const name = [key?.room, key?.caller, key?.name, key?.target].filter(Boolean).join('/');
      if (key && key.revoked_at === null) steps.push({ action: 'revoke', path: `${path}/${id}`, subject: name });
    });
  await runInParallel(history.listSubjects('delete', 'disable', 'end sessions'), async (id) => {
    const path = `${USERS}/${id}`;
    const user = await client.find<AdminUserResponse>(path);
    const action = user && (await chooseAction(client, history, user));
    if (action)
      steps.push({ action, path: action === 'end sessions' ? `${path}/sessions` : path, subject: user.email });
  });
  steps.push(...(await history.households.planSteps(client, new Set(history.listSubjects('delete')))));
  return steps;
}

/** Adds what was made since the backup and is now gone, which only a person can make again. */
async function findGone(client: AdminClient, history: History): Promise<void> {
  const ended = new Set([...history.listSubjects('delete', ...Object.values(KEYS)), ...history.households.deleted]);
  const issued = [...history.issued].filter(([id]) => !ended.has(id));
  await runInParallel(issued, async ([id, event]) => {
    if (!(await client.find(`${ISSUED[event]}/${id}`))) history.addByHand(event, id);
  });
}

async function chooseAction(
  client: AdminClient,
  history: History,
  { id, is_active }: AdminUserResponse,
): Promise<Step['action'] | undefined> {
  if (history.findLastTime('delete', id) > -Infinity) return 'delete';
  if (is_active && history.findLastTime('disable', id) > history.findLastTime('enable', id)) return 'disable';
  const sessions = await client.list<SessionResponse>(`${USERS}/${id}/sessions`);
  const endedBefore = history.findLastTime('end sessions', id);
  const isOpen = sessions.some(({ ended_at, created_at }) => ended_at === null && Date.parse(created_at) < endedBefore);
  return isOpen ? 'end sessions' : undefined;
}

async function carryOut(client: AdminClient, { action, path }: Step): Promise<void> {
  if (action === 'disable') await client.patch(path, { is_active: false });
  else if (action === 'demote') await client.patch(path, { role: 'member' });
  else await client.delete(path);
}
