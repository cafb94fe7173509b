// `platform-auth replay`: after a restore, repeats the revocations and deletions that an exported audit log records
// since the backup. Idempotent, because it compares the log with the present state.
import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import type { Command } from 'commander';
import { parseJson } from '../../foundation/common/json.js';
import { parsePast } from '../command-options.js';
import { formatTable } from '../tables.js';
import { addYes, CommandFailedError, createConfirm, print } from '../terminal.js';
import { runInParallel, type AdminClient } from './admin-client.js';
import { History, ISSUED, REVOKED, SUBSCRIPTIONS, USERS } from './replay-history.js';
import { eventSchema, type Step } from './replay-plan.js';
import { addRemote, createClient } from './remote-command.js';
import type { AdminUserResponse, SessionResponse } from '../../api/admin/users.admin.controller.js';

/** The commands that repeat an event about a signing key. No route does. */
const SIGNING_KEY_COMMANDS: ReadonlyMap<string, string> = new Map([
  ['signing_key.revoked', 'keys revoke'],
  ['signing_key.retired', 'keys retire'],
]);

export function addReplayCommand(root: Command): void {
  const description =
    'After a restore, end again what was ended since the backup: nodes, app credentials, operators, users, sessions, memberships of households; and close every open code.';
  addYes(addRemote(root, 'replay <file>', description, 'audit.ndjson --since 2026-11-23T03:00:00Z'))
    .option('--since <moment>', 'only events since this moment, such as that of the backup', parsePast)
    .option('--dry-run', 'print the plan, and change nothing', false)
    .addHelpText(
      'after',
      '\nThe file is one of "audit export"; - reads standard input. Prints its plan and asks. Safe to run again.',
    )
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
        const hints = [...history.byHand].map(formatByHand);
        const note = hints.length > 0 ? ['Not repeated, see docs/operations/backup.md:', ...hints] : [];
        const events = reset.length > 0 ? [`Compare what they know with the users here: ${reset.join(', ')}.`] : [];
        return [...(dryRun ? [table] : []), end, ...events, ...note].join('\n');
      });
    });
}

function formatByHand([event, subjects]: [event: string, subjects: ReadonlySet<string>]): string {
  const repeat = SIGNING_KEY_COMMANDS.get(event);
  const what = repeat ? [...subjects].map((kid) => `platform-auth ${repeat} ${kid}`).join(', ') : subjects.size;
  return `  ${event}: ${what}`;
}

async function resetEvents(client: AdminClient): Promise<string[]> {
  const { reset } = await client.post<{ reset: string[] }>(`${SUBSCRIPTIONS}/reset`, {});
  return reset;
}

async function readHistory(file: string, since: number): Promise<History> {
  const history = new History();
  history.households.noteTime(since);
  let number = 0;
  const input = file === '-' ? process.stdin : createReadStream(file);
  for await (const line of createInterface({ input, crlfDelay: Infinity })) {
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
  const steps = await planKeys(client, history);
  const deletedUsers = new Set<string>();
  await runInParallel(history.listSubjects('disable', 'end sessions'), async (id) => {
    const path = `${USERS}/${id}`;
    const user = await client.find<AdminUserResponse>(path);
    const action = user && (await chooseAction(client, history, user));
    if (action === 'delete') deletedUsers.add(id);
    if (action)
      steps.push({ action, path: action === 'end sessions' ? `${path}/sessions` : path, subject: user.email });
  });
  await runInParallel(history.listSubjects('unsubscribe'), async (subject) => {
    const path = `${SUBSCRIPTIONS}/${subject}`;
    const isRemoved = history.findLastTime('unsubscribe', subject) > history.findLastTime('subscribe', subject);
    if (isRemoved && (await client.find(path))) steps.push({ action: 'remove', path, subject });
  });
  steps.push(...(await history.households.planSteps(client, deletedUsers)));
  return steps;
}

async function planKeys(client: AdminClient, history: History): Promise<Step[]> {
  const steps: Step[] = [];
  const findLive = async (path: string) => {
    const key = await client.find<Readonly<Record<string, string | null>>>(path);
    if (key?.revoked_at !== null) return undefined;
    const subject = [key.room, key.caller, key.name, key.target].filter(Boolean).join('/');
    return { subject, expiresAt: key.expires_at ?? null };
  };
  for (const base of REVOKED.values())
    await runInParallel(history.listSubjects(base), async (id) => {
      const path = `${base}/${id}`;
      const key = await findLive(path);
      if (key) steps.push({ action: 'revoke', path, subject: key.subject });
    });
  const revoked = new Set(steps.map(({ path }) => path));
  const ended = [...history.keyEnds].flatMap(([path, { expiresAt: end }]) =>
    end === null || revoked.has(path) ? [] : { path, end },
  );
  await runInParallel(ended, async ({ path, end }) => {
    const key = await findLive(path);
    if (key && (key.expiresAt === null || Date.parse(end) < Date.parse(key.expiresAt)))
      steps.push({ action: 'expire', path, subject: key.subject, expires_at: end });
  });
  return steps;
}

/** Adds what was made since the backup and is now gone, which only a person can make again. */
async function findGone(client: AdminClient, history: History): Promise<void> {
  const deleted = [...history.deletions.keys(), ...history.households.deletions.keys()];
  const ended = new Set([...history.listSubjects(...REVOKED.values()), ...deleted]);
  const issued = [...history.issued].filter(([id]) => !ended.has(id));
  await runInParallel(issued, async ([id, event]) => {
    if (!(await client.find(`${ISSUED.get(event)}/${id}`))) history.addByHand(event, id);
  });
}

async function chooseAction(
  client: AdminClient,
  history: History,
  { id, is_active, updated_at }: AdminUserResponse,
): Promise<Step['action'] | undefined> {
  const deletion = history.deletions.get(id);
  if (deletion && Date.parse(updated_at) <= deletion.time) return 'delete';
  // An import that made the account again and a change since the restore look alike: only a person can tell.
  if (deletion) history.addByHand(deletion.event, id);
  if (is_active && history.findLastTime('disable', id) > history.findLastTime('enable', id)) return 'disable';
  const sessions = await client.list<SessionResponse>(`${USERS}/${id}/sessions`);
  const endedBefore = history.findLastTime('end sessions', id);
  const isOpen = sessions.some(({ ended_at, created_at }) => ended_at === null && Date.parse(created_at) < endedBefore);
  return isOpen ? 'end sessions' : undefined;
}

async function carryOut(client: AdminClient, { action, path, expires_at }: Step): Promise<void> {
  if (action === 'expire') await client.patch(path, { expires_at });
  else if (action === 'disable') await client.patch(path, { is_active: false });
  else if (action === 'demote') await client.patch(path, { role: 'member' });
  else await client.delete(path);
}
