import { Command } from 'commander';
import type { AdminClient } from './admin-client.js';
import { createClient, readOutput, describeRemote, encodeSegment } from './remote-command.js';
import { formatTable, type Cell } from '../table.js';
import { CommandFailedError, print } from '../terminal.js';

const COLUMNS = ['id', 'email', 'is_active', 'created_at'] as const;
const SESSION_COLUMNS = ['id', 'created_at', 'rotated_at', 'expires_at', 'ended_at', 'end_reason'] as const;

type UserView = Readonly<Record<(typeof COLUMNS)[number], Cell>>;
type SessionView = Readonly<Record<(typeof SESSION_COLUMNS)[number], Cell>>;

/** `platform-auth users …`: accounts and their sessions. */
export function createUsersCommand(): Command {
  const users = new Command('users')
    .description('Manage accounts. A <user> is an id or an e-mail address.')
    .addHelpText('after', '\nExample:\n  platform-auth users list');
  describeRemote(users.command('list'), 'List users.', 'users list')
    .option('--email <email>', 'only the user with this address')
    .action(async ({ email }: { email?: string }, command: Command) => {
      const items = await createClient(command).list<UserView>('/users', { email });
      print(readOutput(command), { items }, () => formatTable(COLUMNS, items));
    });
  addActivation(users, 'disable', 'Refuse every login of a user and end all of their sessions.', false);
  addActivation(users, 'enable', 'Let a user log in again.', true);
  describeRemote(
    users.command('sessions <user>'),
    'List the sessions of a user, including ended ones.',
    'users sessions alice@example.org',
  ).action(async (user: string, _options, command: Command) => {
    const client = createClient(command);
    const items = await client.list<SessionView>(`/users/${encodeSegment(await findUserId(client, user))}/sessions`);
    print(readOutput(command), { items }, () => formatTable(SESSION_COLUMNS, items));
  });
  describeRemote(
    users.command('revoke-sessions <user>'),
    'End every session of a user.',
    'users revoke-sessions alice@example.org',
  ).action(async (user: string, _options, command: Command) => {
    const client = createClient(command);
    const id = await findUserId(client, user);
    await client.delete(`/users/${encodeSegment(id)}/sessions`);
    print(readOutput(command), { id, sessions_revoked: true }, () => `Every session of ${user} has ended.`);
  });
  return users;
}

function addActivation(users: Command, name: string, description: string, isActive: boolean): void {
  describeRemote(users.command(`${name} <user>`), description, `users ${name} alice@example.org`).action(
    async (user: string, _options, command: Command) => {
      const client = createClient(command);
      const path = `/users/${encodeSegment(await findUserId(client, user))}`;
      const changed = await client.patch<UserView>(path, { is_active: isActive });
      print(readOutput(command), changed, ({ email }) => `${String(email)} is ${name}d.`);
    },
  );
}

/** @throws {CommandFailedError} when the address belongs to no account */
async function findUserId(client: AdminClient, user: string): Promise<string> {
  if (!user.includes('@')) return user;
  const [found] = await client.list<UserView>('/users', { email: user }, 1);
  if (!found) throw new CommandFailedError(`No account has the e-mail address ${user}.`);
  return String(found.id);
}
