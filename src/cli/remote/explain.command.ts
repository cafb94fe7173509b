import { Option, type Command } from 'commander';
import { isId } from '../../foundation/common/ids.js';
import { EXAMPLES } from '../../foundation/common/names.js';
import { MAX_DELEGATION_LINKS } from '../../foundation/config/limits.js';
import { joinPath } from '../http-client.js';
import { addCommand, NEEDS_ADMIN_KEY } from '../command-options.js';
import { replaceControlCharacters } from '../tables.js';
import { CommandFailedError } from '../terminal.js';
import type { AdminClient } from './admin-client.js';
import { addRemote } from './remote-command.js';
import type { AppCredentialResponse } from '../../api/admin/app-credentials.admin.controller.js';
import type { AuditEventResponse } from '../../api/admin/audit-events.admin.controller.js';
import type { UserExplanationResponse } from '../../api/admin/explanations.admin.controller.js';
import type { ExplanationResponse, ReasonResponse } from '../../api/admin/key-explanation.dto.js';
import type { AdminUserResponse, SessionResponse } from '../../api/admin/users.admin.controller.js';
import { buildLoginPath, findUserByEmail } from './users.command.js';

const MAX_CHANGES = 100;
const DAY_MS = 86_400_000;
/** The default SERVICE_NAME. The admin door does not tell it, so the reason that needs it names the assumption. */
const OWN_NAME = 'auth';

/**
 * Why a credential or a login would be refused. Without `until` it does not expire; without `address` it holds for all
 * addresses.
 */
type Reason = Omit<ReasonResponse, 'actor'> &
  Readonly<{ actor?: string | null; until?: string | null; address?: string | null }>;

/** `platform-auth explain …`: the reason for a 401, which the doors hide from callers. */
export function addExplainCommands(root: Command): void {
  const needs = `${NEEDS_ADMIN_KEY}\nExit code 0 whatever the verdict: scripts read accepted_now of --json.`;
  const help = { needs, example: `node ${EXAMPLES.id}` };
  const explain = addCommand(root, 'explain', 'Say why a credential or a login would be refused now.', help);
  explain.on('command:*', ([unknown = '']: string[]) => {
    const advice = unknown.includes('@') ? `. Type: platform-auth explain user ${unknown}` : '';
    explain.error(`error: unknown command '${unknown}'${advice}`);
  });
  addRemote(explain, 'node <node_id>', 'Why would this node be refused now?', `${EXAMPLES.id} --target recipes`)
    .option('--target <service>', 'the service that the key is presented to')
    .answer(
      async (client, given: string, { target }: { target?: string }) =>
        client.get<ExplanationResponse>(`/nodes/${readCredentialId(given, 'node_id')}/explain`, { target }),
      (it, given) => formatExplanation(`Node ${readCredentialId(given, 'node_id')}`, it),
    );
  const ofApp = 'Why would this app credential be refused now?';
  addRemote(explain, 'app <app_id>', ofApp, `${EXAMPLES.id} --target recipes`)
    .option('--target <service>', 'the service that the credential is presented to')
    .option('--scope <scope>', 'the scope that the call needs')
    .answer(
      async (client, given: string, { target, scope }: { target?: string; scope?: string }) =>
        client.get<ExplanationResponse>(`/app-credentials/${readCredentialId(given, 'app_id')}/explain`, {
          target,
          scope,
        }),
      (it, given) => formatExplanation(`App credential ${readCredentialId(given, 'app_id')}`, it),
    );
  const ofUser = 'Why would this user be refused now? By id or e-mail address.';
  addRemote(explain, 'user <user>', ofUser, EXAMPLES.email)
    .option('--address <ip>', 'of the client (default: the latest ones of failed logins, and what holds for all)')
    .addOption(
      new Option('--via <services>', 'why the last of these would get no token for the user: recipes, or recipes,ocr')
        .argParser((text) => text.split(',').map((name) => name.trim()))
        .conflicts('address'),
    )
    .answer(
      async (client, user: string, { address, via }: { address?: string; via?: readonly string[] }) =>
        via === undefined ? explainUser(client, user, address) : explainDelegation(client, user, via),
      (it, user) => ('via' in it ? formatDelegation(user, it) : formatUserExplanation(user, it)),
    );
}

/**
 * @param given an id, or a whole pair as it stands in a header, whose key is neither sent nor printed
 * @throws {CommandFailedError} when it is not an id; what was given is not repeated, because it may be a key
 */
function readCredentialId(given: string, name: 'node_id' | 'app_id'): string {
  const [id = ''] = given.split(':', 1);
  if (isId(id)) return id;
  throw new CommandFailedError(`The ${name} must be a UUID. Whose is a key? platform-auth leaked tells.`, 'usage', 2);
}

function formatExplanation(name: string, explanation: ExplanationResponse): string {
  const { previous_key_accepted_until: until, previous_key_reasons, last_accepted_at, last_accepted_for } = explanation;
  const { current_key_last_accepted_at: current, previous_key_last_accepted_at: previous } = explanation;
  const lines = [
    explanation.accepted_now ? `${name} would be accepted now, with its current key.` : `${name} would be refused now:`,
    ...explanation.reasons.map(formatReason),
  ];
  if (until !== null) lines.push(`The key before the last rotation is valid too, until ${until} at the latest.`);
  if (previous_key_reasons.length > 0)
    lines.push('The key before the last rotation would be refused:', ...previous_key_reasons.map(formatReason));
  const service = last_accepted_for === null ? '' : ` for ${last_accepted_for}`;
  lines.push(last_accepted_at === null ? 'It was never accepted.' : `Last accepted at ${last_accepted_at}${service}.`);
  if (until !== null) {
    const old = explanation.previous_key_last_accepted_for;
    lines.push(`The current key was ${current === null ? 'not accepted yet' : `last accepted at ${current}`}.`);
    const place = old === null ? '' : ` for ${old}`;
    lines.push(`The old key was ${previous === null ? 'never accepted' : `last accepted at ${previous}${place}`}.`);
  }
  return lines.join('\n');
}

type UserExplanation = Awaited<ReturnType<typeof explainUser>>;

/**
 * Finds why a person cannot log in, which the login does not reveal (enumeration). `accepted_now` assumes the right
 * password and second factor; `failed_logins` counts the last 24 hours.
 */
async function explainUser(client: AdminClient, user: string, address: string | undefined) {
  const found = await findUser(client, user);
  if (!found) {
    const methods: string[] = [];
    const none = { user_id: null, live_sessions: 0, last_login_at: null, failed_logins: 0 };
    return { accepted_now: false, reasons: [UNKNOWN_USER], methods, ...none };
  }
  const { id } = found;
  const [login] = await listEvents(client, id, 'user.login.succeeded', 1);
  const since = new Date(Date.now() - DAY_MS).toISOString();
  const failed = await listEvents(client, id, 'user.login.failed', Infinity, since);
  return {
    ...(await explainLogin(client, id, address)),
    user_id: id,
    live_sessions: await countLiveSessions(client, id),
    last_login_at: login?.time ?? null,
    failed_logins: failed.reduce((sum, { count }) => sum + count, 0),
  };
}

const UNKNOWN_USER = createReason(
  'unknown',
  'No account has this id or e-mail address. `platform-auth users list` shows every account, and ' +
    '`platform-auth audit --subject <id>` what became of one that was deleted.',
);

function createReason(code: string, detail: string): Reason {
  return { code, detail, since: null, request_id: null };
}

async function findUser(client: AdminClient, user: string): Promise<AdminUserResponse | undefined> {
  if (user.includes('@')) return findUserByEmail(client, user);
  return client.find<AdminUserResponse>(joinPath('/users', user));
}

async function countLiveSessions(client: AdminClient, id: string): Promise<number> {
  const now = new Date().toISOString();
  const sessions = await client.list<SessionResponse>(joinPath('/users', id, 'sessions'));
  const isLive = ({ ended_at, expires_at, absolute_expires_at }: SessionResponse): boolean =>
    ended_at === null && expires_at > now && absolute_expires_at > now;
  return sessions.filter(isLive).length;
}

/**
 * Finds why the last of these services would get no token to act for a user. The answer assumes that the user's request
 * has reached the first one, which passes the user on to the next.
 */
async function explainDelegation(client: AdminClient, user: string, via: readonly string[]) {
  const found = await findUser(client, user);
  const liveSessions = found ? await countLiveSessions(client, found.id) : 0;
  const keys = await client.listSigningKeys();
  const reasons: Reason[] = [];
  if (!found) reasons.push(UNKNOWN_USER);
  else if (!found.is_active) reasons.push(await explainDisabled(client, found.id));
  else if (liveSessions === 0)
    reasons.push(createReason('no_session', 'The user has no live session. A login begins one.'));
  if (keys.length === 0)
    reasons.push(createReason('hs256', 'Access tokens are signed with HS256. The exchange needs ES256.'));
  if (via.length > MAX_DELEGATION_LINKS) {
    const detail = `${MAX_DELEGATION_LINKS} services at most may pass a user on, one to the next.`;
    reasons.push(createReason('chain_too_long', detail));
  }
  let pairs: AppCredentialResponse[] = [];
  for (const [index, service] of via.entries()) {
    const link = await explainLink(client, service, via[index + 1]);
    reasons.push(...link.reasons);
    ({ pairs } = link);
  }
  const targets = pairs.map(({ target, scopes, for_users_used_at }) => ({ target, scopes, for_users_used_at }));
  return {
    accepted_now: reasons.length === 0,
    reasons,
    user_id: found?.id ?? null,
    live_sessions: liveSessions,
    via,
    targets,
  };
}

/** @param target the next service of the chain; undefined: any service */
async function explainLink(client: AdminClient, service: string, target: string | undefined) {
  const credentials = await client.list<AppCredentialResponse>('/app-credentials', { caller: service, live: 'true' });
  const pairs = credentials.filter((pair) => pair.for_users && (target === undefined || pair.target === target));
  const reasons: Reason[] = [];
  if (!credentials.some((credential) => credential.target === OWN_NAME)) {
    const detail =
      `${service} has no live credential for ${OWN_NAME}, with which it would ask for the token. ` +
      'If the SERVICE_NAME of the authentication service is another one, look for a credential for that name.';
    reasons.push(createReason('no_credential', detail));
  }
  if (pairs.length === 0) {
    const which = target === undefined ? '' : ` for ${target}`;
    const detail = `No live credential of ${service}${which} is for users. \`platform-auth apps update\` has --for-users.`;
    reasons.push(createReason('no_pair_for_users', detail));
  }
  return { pairs, reasons };
}

async function explainLogin(client: AdminClient, id: string, address: string | undefined) {
  const path = buildLoginPath(id);
  const { accepted_now, methods, reasons: given } = await client.get<UserExplanationResponse>(path, { address });
  const none = { since: null, request_id: null };
  const reasons: Reason[] = [];
  for (const reason of given)
    reasons.push(reason.code === 'disabled' ? await explainDisabled(client, id) : { ...reason, ...none });
  return { accepted_now, methods, reasons };
}

async function explainDisabled(client: AdminClient, id: string): Promise<Reason> {
  const changes = await listEvents(client, id, 'admin.user.updated', MAX_CHANGES);
  const isDisabling = ({ details }: AuditEventResponse): boolean =>
    (details.after as { is_active?: unknown } | undefined)?.is_active === false;
  const disabling = changes.find(isDisabling);
  const actor = disabling?.actor.name ?? disabling?.actor.door ?? null;
  const detail = 'The account is disabled. `platform-auth users enable` allows logins again.';
  return { code: 'disabled', detail, since: disabling?.time ?? null, request_id: disabling?.request_id ?? null, actor };
}

async function listEvents(client: AdminClient, subject: string, event: string, max: number, since?: string) {
  return client.list<AuditEventResponse>('/audit-events', { subject, event, since }, max);
}

function formatUserExplanation(user: string, explanation: UserExplanation): string {
  const { accepted_now, methods, reasons, user_id, live_sessions, last_login_at, failed_logins } = explanation;
  const factor = methods.length === 0 ? '' : ` and a second factor: ${methods.join(', ')}`;
  const lines = [
    accepted_now ? `${user} may log in now, with the right password${factor}.` : `${user} would be refused now:`,
    ...reasons.map(formatReason),
  ];
  if (user_id === null) return lines.join('\n');
  if (!accepted_now && factor !== '') lines.push(`A login asks for the password${factor}.`);
  lines.push(last_login_at === null ? 'No login is on record.' : `Last login at ${last_login_at}.`);
  lines.push(`Live sessions: ${live_sessions}. Failed logins in the last 24 hours: ${failed_logins}.`);
  return lines.join('\n');
}

function formatDelegation(user: string, explanation: Awaited<ReturnType<typeof explainDelegation>>): string {
  const { accepted_now, reasons, via, targets } = explanation;
  const chain = via.join(' → ');
  const lines = [
    accepted_now ? `${chain} may act for ${user} now.` : `${chain} would get no token for ${user} now:`,
    ...reasons.map(formatReason),
  ];
  for (const { target, scopes, for_users_used_at: usedAt } of targets) {
    const use = usedAt === null ? 'No token was issued yet.' : `The last token for any user was issued at ${usedAt}.`;
    lines.push(`At ${target}, with the scopes ${scopes?.join(', ')}. ${use}`);
  }
  return lines.join('\n');
}

function formatReason({ code, detail, since, request_id, actor, until, address }: Reason): string {
  const when = (since === null ? '' : ` since ${since}`) + (until == null ? '' : ` until ${until}`);
  const where = address == null ? '' : ` at ${replaceControlCharacters(address)}`;
  const call = request_id === null ? '' : ` by request ${request_id}`;
  const by = actor == null ? '' : ` of ${replaceControlCharacters(actor)}`;
  return `  ${code}${when}${where}${call}${by}\n    ${detail}`;
}
