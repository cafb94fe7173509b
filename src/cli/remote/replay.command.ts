// `platform-auth replay`: after a restore, ends again what an exported audit log says was ended since the backup. It compares
// with the present state, so that a second run finds nothing to do.
import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import type { Command } from 'commander';
import { z } from 'zod';
import { parsePast } from '../command-options.js';
import { formatTable } from '../tables.js';
import { addYes, CommandFailedError, createConfirm, print } from '../terminal.js';
import { inParallel, type AdminClient } from './admin-client.js';
import { addRemote, createClient, parseJson } from './remote-command.js';
import type { AdminUserResponse, SessionResponse } from '../../api/admin/users.admin.controller.js';

const KEYS: Readonly<Record<string, string>> = {
  'admin.node.revoked': '/nodes',
  'admin.app_credential.revoked': '/app-credentials',
  'admin.operator.revoked': '/operators',
};
const USERS = '/users';
/** Without `session.ended`, these end sessions as well. */
const ENDS_SESSIONS =
  /^(session\.(ended|refresh\.reused)|admin\.user\.(sessions_revoked|factors_removed)|user\.(password\.(changed|reset)|totp\.enrolled|passkey\.added))$/;
/** What only a person can repeat: a restore brings old keys, passwords, addresses and factors back. */
const BY_HAND =
  /\.(rotated|removed|factors_removed|replaced|cancelled)$|^user\.(password|email)\.(changed|reset)$|^admin\.operator\.updated$/;

const eventSchema = z.object({
  time: z.string().transform((text) => Date.parse(text)),
  event: z.string(),
  subject: z.string().nullable(),
  details: z
    .object({ after: z.object({ is_active: z.boolean().optional(), email: z.string().optional() }).optional() })
    .catch({}),
});

/** The last time of each action on a subject. */
class History {
  private readonly times = new Map<string, Map<string, number>>();
  readonly byHand = new Map<string, Set<string>>();

  /** The events may come in any order. */
  add({ event, subject, time, details }: z.output<typeof eventSchema>): void {
    if (subject === null) return;
    if (KEYS[event] !== undefined) this.note(KEYS[event], subject, time);
    if (event === 'user.deleted' || event === 'admin.user.deleted') this.note('delete', subject, time);
    const isActive = event === 'admin.user.updated' ? details.after?.is_active : undefined;
    if (isActive !== undefined) this.note(isActive ? 'enable' : 'disable', subject, time);
    // An operator gave the account another address.
    const isMoved = event === 'admin.user.updated' && details.after?.email !== undefined;
    if (isMoved || ENDS_SESSIONS.test(event)) this.note('end sessions', subject, time);
    if (isMoved || BY_HAND.test(event)) this.byHand.set(event, (this.byHand.get(event) ?? new Set()).add(subject));
  }

  subjects(...actions: string[]): string[] {
    return [...new Set(actions.flatMap((action) => [...(this.times.get(action)?.keys() ?? [])]))];
  }

  time(action: string, subject: string): number {
    return this.times.get(action)?.get(subject) ?? -Infinity;
  }

  private note(action: string, subject: string, time: number): void {
    const times = this.times.get(action) ?? new Map<string, number>();
    this.times.set(action, times.set(subject, Math.max(time, this.time(action, subject))));
  }
}

interface Step {
  readonly action: 'revoke' | 'delete' | 'disable' | 'end sessions';
  readonly path: string;
  /** What people call it. */
  readonly subject: string;
}

export function addReplayCommand(root: Command): void {
  const description =
    'After a restore, end again what was ended since the backup: nodes, app credentials, operators, users, sessions.';
  addYes(addRemote(root, 'replay <file>', description, 'audit.ndjson --since 2026-11-23T03:00:00Z'))
    .option('--since <moment>', 'only events since this moment, such as that of the backup', parsePast)
    .option('--dry-run', 'print the plan, and change nothing', false)
    .addHelpText('after', '\nThe file is one of "audit export". Prints its plan and asks. Safe to run again.')
    .action(async (file: string, { since, dryRun }: { since?: string; dryRun: boolean }, command: Command) => {
      const client = createClient(command);
      const history = await readHistory(file, since === undefined ? -Infinity : Date.parse(since));
      const steps = await planSteps(client, history);
      const table = formatTable(['action', 'subject', 'path'], steps, { drop: ['path'] });
      if (steps.length > 0 && !dryRun) {
        await createConfirm(command)(`${table}\nThis ends again what is listed (${steps.length}), permanently.`);
        await inParallel(steps, (step) => carryOut(client, step));
      }
      const by_hand = Object.fromEntries([...history.byHand].map(([event, subjects]) => [event, [...subjects]]));
      print(command, { done: !dryRun, steps, by_hand }, () => {
        const end = dryRun ? 'Nothing was changed.' : `Ended again: ${steps.length}.`;
        const hints = [...history.byHand].map(([event, { size }]) => `  ${event}: ${size}`);
        const note = hints.length > 0 ? ['Not repeated, see docs/operations/backup.md:', ...hints] : [];
        return [...(dryRun ? [table] : []), end, ...note].join('\n');
      });
    });
}

async function readHistory(file: string, since: number): Promise<History> {
  const history = new History();
  let number = 0;
  for await (const line of createInterface({ input: createReadStream(file), crlfDelay: Infinity })) {
    number += 1;
    const event = eventSchema.safeParse(parseJson(line)).data;
    if (!event || Number.isNaN(event.time))
      throw new CommandFailedError(`Line ${number} of ${file} is not an event of "audit export".`, 'file_unusable');
    if (event.time >= since) history.add(event);
  }
  return history;
}

async function planSteps(client: AdminClient, history: History): Promise<Step[]> {
  const steps: Step[] = [];
  for (const path of Object.values(KEYS))
    await inParallel(history.subjects(path), async (id) => {
      const key = await client.find<Readonly<Record<string, string | null>>>(`${path}/${id}`);
      const name = [key?.room, key?.caller, key?.name, key?.target].filter(Boolean).join('/');
      if (key && key.revoked_at === null) steps.push({ action: 'revoke', path: `${path}/${id}`, subject: name });
    });
  await inParallel(history.subjects('delete', 'disable', 'end sessions'), async (id) => {
    const path = `${USERS}/${id}`;
    const user = await client.find<AdminUserResponse>(path);
    const action = user && (await chooseAction(client, history, user));
    if (action)
      steps.push({ action, path: action === 'end sessions' ? `${path}/sessions` : path, subject: user.email });
  });
  return steps;
}

async function chooseAction(
  client: AdminClient,
  history: History,
  { id, is_active }: AdminUserResponse,
): Promise<Step['action'] | undefined> {
  if (history.time('delete', id) > -Infinity) return 'delete';
  if (is_active && history.time('disable', id) > history.time('enable', id)) return 'disable';
  const sessions = await client.list<SessionResponse>(`${USERS}/${id}/sessions`);
  const endedBefore = history.time('end sessions', id);
  const isOpen = sessions.some(({ ended_at, created_at }) => ended_at === null && Date.parse(created_at) < endedBefore);
  return isOpen ? 'end sessions' : undefined;
}

async function carryOut(client: AdminClient, { action, path }: Step): Promise<void> {
  if (action === 'disable') await client.patch(path, { is_active: false });
  else await client.delete(path);
}
