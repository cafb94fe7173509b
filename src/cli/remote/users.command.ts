import type { Command } from 'commander';
import type { UserExplanationResponse } from '../../api/admin/explanations.admin.controller.js';
import type {
  AdminUserResponse,
  CreatedUserResponse,
  PasswordResetResponse,
} from '../../api/admin/users.admin.controller.js';
import { EXAMPLES } from '../../foundation/common/names.js';
import { joinPath } from '../http-client.js';
import { addYes, createConfirm, readNewPassword, CommandFailedError } from '../terminal.js';
import { formatFields } from '../tables.js';
import type { AdminClient } from './admin-client.js';
import { addRemote } from './remote-command.js';
import { addCommand, NEEDS_ADMIN_KEY, parsePast } from '../command-options.js';

/** E-mail addresses are searched in a body, so that no proxy logs them. */
const USER_SEARCH = '/users/search';
const COLUMNS = ['id', 'email', 'is_active', 'created_at'];
const SESSION_COLUMNS = ['id', 'created_at', 'rotated_at', 'expires_at', 'ended_at', 'end_reason'];

type UserDetails = AdminUserResponse & Pick<UserExplanationResponse, 'email_verified_at' | 'second_factors'>;

/** `platform-auth users …`: accounts and their sessions. */
export function addUsersCommands(root: Command): Command {
  const needs = `${NEEDS_ADMIN_KEY}\nOnly import and export connect to the database, with DATABASE_URL.`;
  const description = 'Manage accounts. A <user> is an id or an e-mail address.';
  const users = addCommand(root, 'users', description, { needs, example: 'list' });
  addRemote(users, 'list', 'List users.', '--search @example.org --unverified --created-since 7d')
    .list(() => ({ path: USER_SEARCH, method: 'POST', columns: COLUMNS, drop: ['created_at', 'is_active'] }))
    .option('--email <email>', 'only the user with this address')
    .option('--search <text>', 'only users whose address contains this')
    .option('--disabled', 'only disabled users')
    .option('--unverified', 'only users without a proven address')
    .option('--without-factor', 'only users without a second factor')
    .option('--throttled', 'only users whose passwords or codes are refused now because of wrong ones')
    .option('--created-since <moment>', 'ISO 8601, or how long ago: 30m, 24h, 7d', parsePast);
  addRegister(users);
  addRemote(users, 'show <user>', 'Show one user.', EXAMPLES.email).answer(findUserDetails, (it) =>
    formatFields({ ...it, second_factors: it.second_factors.join(', ') }),
  );
  addChange(users, 'disable', 'Refuse every login of a user and end all of their sessions.', { is_active: false });
  addChange(users, 'enable', 'Allow a user to log in again.', { is_active: true });
  addSetEmail(users);
  addChange(users, 'verify', 'Mark the address of a user as proven.', { email_verified: true }, 'verified');
  addUnlock(users);
  addDelete(users);
  addSessions(users);
  addRemoveFactors(users);
  addPasswordReset(users);
  return users;
}

function addRegister(users: Command): void {
  const description = 'Register a user, who is invited to choose a password, also while registration is closed.';
  addRemote(users, 'register <email>', description, EXAMPLES.email)
    .option('--password', 'you choose the password, and know it: for tests', false)
    .addHelpText(
      'after',
      '\nThe invitation is sent by mail, or printed for you to hand over where the service sends none.\n' +
        '--password asks without echo; without a terminal it reads the first line of standard input. A service with\n' +
        'ADMIN_SET_PASSWORDS=refused refuses it.',
    )
    .answer(
      async (client, email: string, { password }: { password: boolean }) =>
        client.post<CreatedUserResponse>(
          '/users',
          { email, ...(password && { password: await readNewPassword() }) },
          `Look with \`platform-auth users list --email ${email}\`. If it is missing, run this again. If it is there ` +
            `without an invitation, run \`platform-auth users reset-password ${email}\`.`,
        ),
      ({ id, invitation }, email, { password }) => {
        const said = `${email} is registered. Its id is ${id}.`;
        if (password) return said;
        return invitation ? `${said}\n\n${formatLink(invitation, email)}` : `${said} A mail invites the user.`;
      },
    );
}

function addDelete(users: Command): void {
  const description = 'Delete a user and all of their sessions permanently.';
  addYes(addRemote(users, 'delete <user>', description, EXAMPLES.email)).answer(
    async (client, user: string, _options: unknown, command: Command) => {
      const { id, email } = await findUser(client, user);
      await createConfirm(command)(`This deletes the user ${email} and all of their sessions permanently.`);
      await client.delete(joinPath('/users', id));
      return { id, deleted: true, email };
    },
    ({ email }) => `${email} is deleted.`,
  );
}

function addChange(users: Command, name: string, description: string, change: object, done = `${name}d`): void {
  addRemote(users, `${name} <user>`, description, EXAMPLES.email).answer(
    async (client, user: string) => client.patch<AdminUserResponse>(await findUserPath(client, user), change),
    ({ email }) => `${email} is ${done}.`,
  );
}

function addSetEmail(users: Command): void {
  const description = 'Set the address of a user, end all of their sessions, and tell both addresses.';
  addRemote(users, 'set-email <user> <email>', description, `${EXAMPLES.email} alice@example.net --verified`)
    .option('--verified', 'the address is proven: you know that it belongs to the user', false)
    .answer(
      async (client, user: string, email: string, { verified }: { verified: boolean }) =>
        client.patch<AdminUserResponse>(await findUserPath(client, user), { email, email_verified: verified }),
      ({ email, email_verified }, user) =>
        `${user} has the address ${email} now, which is ${email_verified ? '' : 'not '}verified. Every session has ended.`,
    );
}

function addUnlock(users: Command): void {
  const description = 'Remove what refuses logins, codes and mails of a user after too many tries.';
  addRemote(users, 'unlock <user>', description, EXAMPLES.email).answer(
    async (client, user: string) => {
      const id = await findUserId(client, user);
      await client.delete(joinPath('/users', id, 'throttles'));
      return { id, unlocked: true };
    },
    (_result, user) => `The throttles of ${user} are removed. Those of networks stay.`,
  );
}

function addSessions(users: Command): void {
  const list = 'List the sessions of a user, including ended ones.';
  addRemote(users, 'sessions <user>', list, EXAMPLES.email).list(async (client, user: string) => {
    const path = `${await findUserPath(client, user)}/sessions`;
    return { path, columns: SESSION_COLUMNS, drop: ['id', 'created_at'] };
  });
  addRemote(users, 'revoke-sessions <user>', 'End every session of a user.', EXAMPLES.email).answer(
    async (client, user: string) => {
      const id = await findUserId(client, user);
      await client.delete(joinPath('/users', id, 'sessions'));
      return { id, sessions_revoked: true };
    },
    (_result, user) => `Every session of ${user} has ended.`,
  );
}

function addRemoveFactors(users: Command): void {
  const description = 'Remove all second factors of a user who has lost them, and end every session.';
  addYes(addRemote(users, 'remove-factors <user>', description, EXAMPLES.email)).answer(
    async (client, user: string, _options: unknown, command: Command) => {
      const { id, email, second_factors: removed } = await findUserDetails(client, user);
      if (removed.length === 0) return { id, factors_removed: false, removed, email };
      await createConfirm(command)(`This lets ${email} log in with the password alone.`);
      await client.delete(joinPath('/users', id, 'factors'));
      return { id, factors_removed: true, removed, email };
    },
    ({ email, removed }) =>
      removed.length === 0
        ? `${email} has no second factor. Nothing was changed.`
        : `Removed from ${email}: ${removed.join(', ')}. Every session has ended.`,
  );
}

function addPasswordReset(users: Command): void {
  const description = 'Issue a link with which a user sets a new password, for you to hand over.';
  addRemote(users, 'reset-password <user>', description, EXAMPLES.email).answer(
    async (client, user: string) =>
      client.post<PasswordResetResponse>(
        `${await findUserPath(client, user)}/password-reset`,
        undefined,
        'Run this again: a new link replaces the one before.',
      ),
    formatLink,
  );
}

function formatLink({ token, link, expires_at }: PasswordResetResponse, user: string): string {
  return link === undefined
    ? `${token}\n\nThis token is shown once and sets the password of ${user} once, until ${expires_at}:\n` +
        '  POST /api/v0/auth/password-reset/confirm {"token": …, "new_password": …}'
    : `${link}\n\nThis link is shown once and sets the password of ${user} once, until ${expires_at}.`;
}

/** @throws {CommandFailedError} when the account does not exist */
async function findUserDetails(client: AdminClient, user: string): Promise<UserDetails> {
  const found = await findUser(client, user);
  const { email_verified_at, second_factors } = await client.get<UserExplanationResponse>(buildLoginPath(found.id));
  return { ...found, email_verified_at, second_factors };
}

export async function findUserByEmail(client: AdminClient, email: string): Promise<AdminUserResponse | undefined> {
  const [found] = await client.list<AdminUserResponse>(USER_SEARCH, { email }, 1, 'POST');
  return found;
}

/** @throws {CommandFailedError} when the account does not exist */
async function findUser(client: AdminClient, user: string): Promise<AdminUserResponse> {
  if (!user.includes('@')) return client.get<AdminUserResponse>(joinPath('/users', user));
  const found = await findUserByEmail(client, user);
  if (!found)
    throw new CommandFailedError(
      `No account has the e-mail address ${user}. \`platform-auth users list\` shows every account.`,
      'not_found',
    );
  return found;
}

/** @returns the parameter itself, without a call, unless it is an e-mail address */
export async function findUserId(client: AdminClient, user: string): Promise<string> {
  return user.includes('@') ? (await findUser(client, user)).id : user;
}

async function findUserPath(client: AdminClient, user: string): Promise<string> {
  return joinPath('/users', await findUserId(client, user));
}

/** @returns the path at which the service explains a user's login */
export function buildLoginPath(userId: string): string {
  return joinPath('/users', userId, 'explain');
}
