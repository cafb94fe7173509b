import { Command } from 'commander';
import type { AdminClient } from './admin-client.js';
import { clientOf, outputOf, remote, segment } from './remote-command.js';
import { CommandFailed, print, table, type Cell } from '../terminal.js';

const COLUMNS = ['id', 'email', 'is_active', 'created_at'] as const;
const SESSION_COLUMNS = ['id', 'created_at', 'rotated_at', 'expires_at', 'ended_at', 'end_reason'] as const;

type UserView = Readonly<Record<(typeof COLUMNS)[number], Cell>>;
type SessionView = Readonly<Record<(typeof SESSION_COLUMNS)[number], Cell>>;

/** `platform-auth users …`: who may log in, and where they are logged in. */
export function usersCommand(): Command {
  const users = new Command('users')
    .description('Look after accounts. A <user> is an id or an e-mail address.')
    .addHelpText('after', '\nExample:\n  platform-auth users list');
  remote(users.command('list'), 'List users.', 'users list')
    .option('--email <email>', 'only the user with this address')
    .action(async ({ email }: { email?: string }, command: Command) => {
      const items = await clientOf(command).list<UserView>('/users', { email });
      print(outputOf(command), { items }, () => table(COLUMNS, items));
    });
  addSwitch(users, 'disable', 'Refuse every login of a user and end all of their sessions.', false);
  addSwitch(users, 'enable', 'Let a user log in again.', true);
  remote(
    users.command('sessions <user>'),
    'List the sessions of a user, ended ones too.',
    'users sessions alice@example.org',
  ).action(async (user: string, _options, command: Command) => {
    const client = clientOf(command);
    const items = await client.list<SessionView>(`/users/${segment(await idOf(client, user))}/sessions`);
    print(outputOf(command), { items }, () => table(SESSION_COLUMNS, items));
  });
  remote(
    users.command('revoke-sessions <user>'),
    'Log a user out everywhere.',
    'users revoke-sessions alice@example.org',
  ).action(async (user: string, _options, command: Command) => {
    const client = clientOf(command);
    const id = await idOf(client, user);
    await client.delete(`/users/${segment(id)}/sessions`);
    print(outputOf(command), { id, sessions_revoked: true }, () => `Every session of ${user} has ended.`);
  });
  return users;
}

function addSwitch(users: Command, name: string, description: string, isActive: boolean): void {
  remote(users.command(`${name} <user>`), description, `users ${name} alice@example.org`).action(
    async (user: string, _options, command: Command) => {
      const client = clientOf(command);
      const path = `/users/${segment(await idOf(client, user))}`;
      const changed = await client.patch<UserView>(path, { is_active: isActive });
      print(outputOf(command), changed, ({ email }) => `${String(email)} is ${name}d.`);
    },
  );
}

/** @throws {CommandFailed} when nobody has the address */
async function idOf(client: AdminClient, user: string): Promise<string> {
  if (!user.includes('@')) return user;
  const [found] = await client.list<UserView>('/users', { email: user }, 1);
  if (!found) throw new CommandFailed(`Nobody has the e-mail address ${user}.`);
  return String(found.id);
}
