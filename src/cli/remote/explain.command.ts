import { Command } from 'commander';
import type { Api } from './api-types.js';
import { EXAMPLES } from '../../common/examples.js';
import { createClient, readOutput, describeRemote, type AdminClient } from './admin-client.js';
import { print } from '../output.js';
import { formatNeeds, NEEDS_ADMIN_KEY } from '../command-options.js';
import { addDays } from '../../common/clock.js';
import type { AuditEvent } from './audit.command.js';
import { buildLoginPath, type LoginView, type UserView } from './users.command.js';
import { replaceControlCharacters } from '../tables.js';

type Explanation = Api['ExplanationResponse'];

/** `platform-auth explain …`: the reason for a 401, which the doors hide from callers. */
export function createExplainCommand(): Command {
  const explain = new Command('explain')
    .description('Say why a credential or a login would be refused now.')
    .addHelpText(
      'after',
      formatNeeds(
        `${NEEDS_ADMIN_KEY}\nExit code 0 whatever the verdict: scripts read accepted_now of --json.`,
        `platform-auth explain node ${EXAMPLES.id}`,
      ),
    );
  describeRemote(
    explain.command('node <node_id>'),
    'Why would this node be refused now?',
    `explain node ${EXAMPLES.id}`,
  ).action(async (nodeId: string, _options, command: Command) => {
    const explanation = await createClient(command).get<Explanation>(`/nodes/${encodeURIComponent(nodeId)}/explain`);
    print(readOutput(command), explanation, (it) => formatExplanation(`Node ${nodeId}`, it));
  });
  describeRemote(
    explain.command('app <app_id>'),
    'Why would this app credential be refused now?',
    `explain app ${EXAMPLES.id} --target recipes`,
  )
    .option('--target <service>', 'the service that the credential is presented to')
    .action(async (appId: string, { target }: { target?: string }, command: Command) => {
      const path = `/app-credentials/${encodeURIComponent(appId)}/explain`;
      const explanation = await createClient(command).get<Explanation>(path, { target });
      print(readOutput(command), explanation, (it) => formatExplanation(`App credential ${appId}`, it));
    });
  addExplainUser(explain);
  return explain;
}

function formatExplanation(name: string, explanation: Explanation): string {
  const { previous_key_accepted_until: until, previous_key_reasons, last_accepted_at, last_accepted_for } = explanation;
  const lines = [
    explanation.accepted_now ? `${name} would be accepted now, with its current key.` : `${name} would be refused now:`,
    ...explanation.reasons.map(formatReason),
  ];
  if (until !== null)
    lines.push(`The key before the last rotation is valid too, until ${until} or the first use of the current one.`);
  if (previous_key_reasons.length > 0)
    lines.push('The key before the last rotation would be refused:', ...previous_key_reasons.map(formatReason));
  const service = last_accepted_for === null ? '' : ` for ${last_accepted_for}`;
  lines.push(last_accepted_at === null ? 'It was never accepted.' : `Last accepted at ${last_accepted_at}${service}.`);
  return lines.join('\n');
}

const MAX_CHANGES = 100;
/** The service is asked once for each. */
const MAX_ADDRESSES = 5;
const UNKNOWN: Reason = {
  code: 'unknown',
  detail: 'No account has this id or e-mail address. `platform-auth users list` shows every account.',
  since: null,
  request_id: null,
};

type SessionView = Api['SessionResponse'];

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
    : await client.find<UserView>(`/users/${encodeURIComponent(user)}`);
  if (!found) {
    const none = { user_id: null, methods: [], live_sessions: 0, last_login_at: null, failed_logins: 0 };
    return { accepted_now: false, reasons: [UNKNOWN], ...none };
  }
  const id = found.id;
  const now = new Date().toISOString();
  const sessions = await client.list<SessionView>(`/users/${encodeURIComponent(id)}/sessions`);
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
  const actor = disabling?.actor.name ?? disabling?.actor.door ?? null;
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

/** One reason why a credential or a login would be refused. */
export interface Reason {
  readonly code: string;
  readonly detail: string;
  readonly since: string | null;
  readonly request_id: string | null;
  readonly actor?: string | null;
  /** When it ends by itself. */
  readonly until?: string | null;
  /** The client's, when the reason holds for it alone. */
  readonly address?: string;
}

export function formatReason({ code, detail, since, request_id, actor, until, address }: Reason): string {
  const when = (since === null ? '' : ` since ${since}`) + (until == null ? '' : ` until ${until}`);
  const where = address === undefined ? '' : ` at ${replaceControlCharacters(address)}`;
  const call = request_id === null ? '' : ` by request ${request_id}`;
  const by = actor == null ? '' : ` of ${replaceControlCharacters(actor)}`;
  return `  ${code}${when}${where}${call}${by}\n    ${detail}`;
}
