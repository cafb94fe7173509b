import type { Command } from 'commander';
import { addDays } from '../../common/clock.js';
import { print } from '../terminal.js';
import type { AdminClient } from './admin-client.js';
import type { AuditEvent } from './audit-events.js';
import { buildLoginPath, type LoginView } from './login-view.js';
import { formatReason, type Reason } from './reasons.js';
import { createClient, describeRemote, encodeSegment, readOutput } from './remote-command.js';
import type { UserView } from './users.command.js';

const MAX_CHANGES = 100;
/** The service is asked once for each. */
const MAX_ADDRESSES = 5;
const UNKNOWN: Reason = {
  code: 'unknown',
  detail: 'No account has this id or e-mail address. `platform-auth users list` shows every account.',
  since: null,
  request_id: null,
};

interface SessionView {
  readonly ended_at: string | null;
  readonly expires_at: string;
  readonly absolute_expires_at: string;
}

interface UserExplanation {
  /** Whether a login with the right password would be accepted, with a second factor when one is asked for. */
  readonly accepted_now: boolean;
  /** What a login asks for after the password. */
  readonly methods: readonly string[];
  readonly reasons: readonly Reason[];
  readonly user_id: string | null;
  readonly live_sessions: number;
  readonly last_login_at: string | null;
  /** In the last 24 hours: wrong passwords, and logins of a disabled account. */
  readonly failed_logins: number;
}

/** `platform-auth explain user`: why a person cannot log in, which the login hides from callers (enumeration). */
export function addExplainUser(explain: Command): void {
  describeRemote(
    explain.command('user <user>'),
    'Why would this user be refused now? By id or e-mail address.',
    'explain user alice@example.org',
  )
    .option('--address <ip>', 'of the client (default: the latest ones of failed logins, and what holds for all)')
    .action(async (user: string, { address }: { address?: string }, command: Command) => {
      const explanation = await explainUser(createClient(command), user, address);
      print(readOutput(command), explanation, (it) => formatUserExplanation(user, it));
    });
}

async function explainUser(client: AdminClient, user: string, address: string | undefined): Promise<UserExplanation> {
  const found = user.includes('@')
    ? (await client.list<UserView>('/users', { email: user }, 1))[0]
    : await client.find<UserView>(`/users/${encodeSegment(user)}`);
  if (!found) {
    const none = { user_id: null, methods: [], live_sessions: 0, last_login_at: null, failed_logins: 0 };
    return { accepted_now: false, reasons: [UNKNOWN], ...none };
  }
  const id = String(found.id);
  const now = new Date().toISOString();
  const sessions = await client.list<SessionView>(`/users/${encodeSegment(id)}/sessions`);
  const isLive = ({ ended_at, expires_at, absolute_expires_at }: SessionView): boolean =>
    ended_at === null && expires_at > now && absolute_expires_at > now;
  const [login] = await listEvents(client, id, 'user.login.succeeded', 1);
  const since = addDays(new Date(), -1).toISOString();
  const failed = await listEvents(client, id, 'user.login.failed', Infinity, since);
  const latest = new Set(failed.flatMap((event) => event.address ?? []));
  return {
    ...(await explainLogin(client, id, address === undefined ? [...latest].slice(0, MAX_ADDRESSES) : [address])),
    user_id: id,
    live_sessions: sessions.filter(isLive).length,
    last_login_at: login?.time ?? null,
    failed_logins: failed.reduce((sum, { count }) => sum + count, 0),
  };
}

async function explainLogin(client: AdminClient, id: string, addresses: readonly string[]) {
  const path = buildLoginPath(id);
  const ofAny = await client.get<LoginView>(path);
  const reasons: Reason[] = [];
  for (const { code, detail, until } of ofAny.reasons)
    reasons.push(
      code === 'disabled' ? await explainDisabled(client, id) : { code, detail, until, since: null, request_id: null },
    );
  let isAccepted = ofAny.accepted_now;
  for (const address of addresses) {
    const there = await client.get<LoginView>(path, { address });
    isAccepted &&= there.accepted_now;
    for (const { code, detail, until } of there.reasons)
      if (!ofAny.reasons.some((known) => known.code === code && known.detail === detail))
        reasons.push({ code, detail, until, address, since: null, request_id: null });
  }
  return { accepted_now: isAccepted, methods: ofAny.methods, reasons };
}

async function explainDisabled(client: AdminClient, id: string): Promise<Reason> {
  const changes = await listEvents(client, id, 'admin.user.updated', MAX_CHANGES);
  const disabling = changes.find(
    ({ details }) => (details.after as { is_active?: unknown } | undefined)?.is_active === false,
  );
  const actor = disabling?.actor?.name ?? disabling?.actor?.door ?? null;
  const detail = 'The account is disabled. `platform-auth users enable` allows logins again.';
  return { code: 'disabled', detail, since: disabling?.time ?? null, request_id: disabling?.request_id ?? null, actor };
}

async function listEvents(client: AdminClient, subject: string, event: string, max: number, since?: string) {
  return client.list<AuditEvent>('/audit-events', { subject, event, since }, max);
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
