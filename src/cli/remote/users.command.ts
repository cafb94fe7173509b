import { Command } from 'commander';
import type { Api } from './api-types.js';
import { EXAMPLES } from '../../common/examples.js';
import { addYes, createConfirm, readNewPassword } from '../prompts.js';
import { CommandFailedError, print } from '../output.js';
import { formatFields, formatTable } from '../tables.js';
import { withAdvice } from '../http-client.js';
import { type AdminClient, createClient, readOutput, describeRemote } from './admin-client.js';
import { formatNeeds, NEEDS_ADMIN_KEY } from '../command-options.js';

const COLUMNS = ['id', 'email', 'is_active', 'created_at'] as const;
const SESSION_COLUMNS = ['id', 'created_at', 'rotated_at', 'expires_at', 'ended_at', 'end_reason'] as const;

export type UserView = Api['UserResponse'];
type UserDetailsView = UserView & Pick<LoginView, 'email_verified_at' | 'second_factors'>;
type IssuedReset = Api['PasswordResetResponse'];
type SessionView = Api['SessionResponse'];

/** `platform-auth users …`: accounts and their sessions. */
export function createUsersCommand(): Command {
  const users = new Command('users')
    .description('Manage accounts. A <user> is an id or an e-mail address.')
    .addHelpText(
      'after',
      formatNeeds(
        `${NEEDS_ADMIN_KEY}\nOnly import and export connect to the database, with DATABASE_URL.`,
        'platform-auth users list',
      ),
    );
  describeRemote(users.command('list'), 'List users.', 'users list')
    .option('--email <email>', 'only the user with this address')
    .action(async ({ email }: { email?: string }, command: Command) => {
      const items = await createClient(command).list<UserView>('/users', { email });
      print(readOutput(command), { items }, () => formatTable(COLUMNS, items, { drop: ['created_at', 'is_active'] }));
    });
  addCreate(users);
  addShow(users);
  addActivation(users, 'disable', 'Refuse every login of a user and end all of their sessions.');
  addActivation(users, 'enable', 'Allow a user to log in again.');
  addDelete(users);
  addSessions(users);
  addRemoveFactors(users);
  addPasswordReset(users);
  return users;
}

function addCreate(users: Command): void {
  describeRemote(
    users.command('create <email>'),
    'Create a user, also while registration is closed.',
    `users create ${EXAMPLES.email}`,
  )
    .addHelpText(
      'after',
      `\nAsks for the password, without echo; without a terminal, reads the first line of standard input.`,
    )
    .action(async (email: string, _options, command: Command) => {
      const client = createClient(command);
      const password = await readNewPassword();
      const created = await withAdvice(
        client.post<UserView>('/users', { email, password }),
        `Look with \`platform-auth users list --email ${email}\`. If it is missing, run this again.`,
      );
      print(readOutput(command), created, ({ id }) => `${email} is created. Its id is ${id}.`);
    });
}

function addShow(users: Command): void {
  describeRemote(users.command('show <user>'), 'Show one user.', `users show ${EXAMPLES.email}`).action(
    async (user: string, _options, command: Command) => {
      const found = await findUserDetails(createClient(command), user);
      print(readOutput(command), found, (it) => formatFields({ ...it, second_factors: it.second_factors.join(', ') }));
    },
  );
}

function addDelete(users: Command): void {
  const description = 'Delete a user and all of their sessions permanently.';
  describeRemote(addYes(users.command('delete <user>')), description, `users delete ${EXAMPLES.email}`).action(
    async (user: string, _options, command: Command) => {
      const client = createClient(command);
      const { id, email } = await findUser(client, user);
      await createConfirm(command)(`This deletes the user ${email} and all of their sessions permanently.`);
      await client.delete(`/users/${encodeURIComponent(id)}`);
      print(readOutput(command), { id, deleted: true }, () => `${email} is deleted.`);
    },
  );
}

function addActivation(users: Command, name: 'enable' | 'disable', description: string): void {
  describeRemote(users.command(`${name} <user>`), description, `users ${name} ${EXAMPLES.email}`).action(
    async (user: string, _options, command: Command) => {
      const client = createClient(command);
      const path = `/users/${encodeURIComponent(await findUserId(client, user))}`;
      const changed = await client.patch<UserView>(path, { is_active: name === 'enable' });
      print(readOutput(command), changed, ({ email }) => `${email} is ${name}d.`);
    },
  );
}

function addSessions(users: Command): void {
  describeRemote(
    users.command('sessions <user>'),
    'List the sessions of a user, including ended ones.',
    `users sessions ${EXAMPLES.email}`,
  ).action(async (user: string, _options, command: Command) => {
    const client = createClient(command);
    const items = await client.list<SessionView>(
      `/users/${encodeURIComponent(await findUserId(client, user))}/sessions`,
    );
    print(readOutput(command), { items }, () => formatTable(SESSION_COLUMNS, items, { drop: ['id', 'created_at'] }));
  });
  describeRemote(
    users.command('revoke-sessions <user>'),
    'End every session of a user.',
    `users revoke-sessions ${EXAMPLES.email}`,
  ).action(async (user: string, _options, command: Command) => {
    const client = createClient(command);
    const id = await findUserId(client, user);
    await client.delete(`/users/${encodeURIComponent(id)}/sessions`);
    print(readOutput(command), { id, sessions_revoked: true }, () => `Every session of ${user} has ended.`);
  });
}

function addRemoveFactors(users: Command): void {
  const description = 'Remove all second factors of a user who has lost them, and end every session.';
  const name = 'remove-factors <user>';
  describeRemote(addYes(users.command(name)), description, `users remove-factors ${EXAMPLES.email}`).action(
    async (user: string, _options, command: Command) => {
      const client = createClient(command);
      const { id, email, second_factors: removed } = await findUserDetails(client, user);
      if (removed.length === 0) {
        const said = `${email} has no second factor. Nothing was changed.`;
        print(readOutput(command), { id, factors_removed: false, removed }, () => said);
        return;
      }
      await createConfirm(command)(`This lets ${email} log in with the password alone.`);
      await client.delete(`/users/${encodeURIComponent(id)}/factors`);
      const said = `Removed from ${email}: ${removed.join(', ')}. Every session has ended.`;
      print(readOutput(command), { id, factors_removed: true, removed }, () => said);
    },
  );
}

function addPasswordReset(users: Command): void {
  describeRemote(
    users.command('reset-password <user>'),
    'Issue a token with which a user sets a new password, for you to hand over.',
    `users reset-password ${EXAMPLES.email}`,
  ).action(async (user: string, _options, command: Command) => {
    const client = createClient(command);
    const path = `/users/${encodeURIComponent(await findUserId(client, user))}/password-reset`;
    const issued = await withAdvice(
      client.post<IssuedReset>(path),
      'Run this again: a new token replaces the one before.',
    );
    print(
      readOutput(command),
      issued,
      ({ token, expires_at }) =>
        `${token}\n\nThis token is shown once and sets the password of ${user} once, until ${expires_at}:\n` +
        '  POST /api/v0/auth/password-reset/confirm {"token": …, "new_password": …}',
    );
  });
}

/** @throws {CommandFailedError} when the account does not exist */
async function findUserDetails(client: AdminClient, user: string): Promise<UserDetailsView> {
  const found = await findUser(client, user);
  const { email_verified_at, second_factors } = await client.get<LoginView>(buildLoginPath(found.id));
  return { ...found, email_verified_at, second_factors };
}

/** @throws {CommandFailedError} when the account does not exist */
async function findUser(client: AdminClient, user: string): Promise<UserView> {
  if (!user.includes('@')) return client.get<UserView>(`/users/${encodeURIComponent(user)}`);
  const [found] = await client.list<UserView>('/users', { email: user }, 1);
  if (!found)
    throw new CommandFailedError(
      `No account has the e-mail address ${user}. \`platform-auth users list\` shows every account.`,
      'not_found',
    );
  return found;
}

/** @returns the id as given, without a call, when it is not an e-mail address */
export async function findUserId(client: AdminClient, user: string): Promise<string> {
  return user.includes('@') ? (await findUser(client, user)).id : user;
}

/** As the service explains a login from one address, or from any. */
export type LoginView = Api['UserExplanationResponse'];

/** @returns the path of a {@link LoginView} */
export function buildLoginPath(userId: string): string {
  return `/users/${encodeURIComponent(userId)}/explain`;
}
