import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { tokenPair } from '../tools/api-client.js';
import type { Client, JsonAnswer } from './send.js';

const PASSWORD = 'a passphrase of SECRETCANARY7F3A91';
const NODE = { household_id: '5b1c7a9e-0d35-4c8e-9a57-6f0b1f4f2a10', room: 'hall', name: 'lamp' };
const MAX_ATTEMPTS = 20;
const RETRY_INTERVAL_MS = 50;
const SYMBOL = /\{\{(\w+)\}\}/g;

export type CredentialKind =
  | 'user'
  | 'session'
  | 'home'
  | 'node'
  | 'app'
  | 'enrolment'
  | 'operator'
  | 'named_operator'
  | 'page';

/** Live values by the names of their symbols. */
type Values = Readonly<Record<string, string>>;

/** The kind of credential behind each symbol of a generated request. */
const KINDS: Readonly<Partial<Record<string, CredentialKind>>> = {
  user_id: 'user',
  email: 'user',
  password: 'user',
  access_token: 'session',
  refresh_token: 'session',
  home_id: 'home',
  member_id: 'home',
  stranger_id: 'home',
  home_node_id: 'home',
  invitation_id: 'home',
  node_id: 'node',
  household_id: 'node',
  api_key: 'node',
  app_id: 'app',
  app_key: 'app',
  caller: 'app',
  target: 'app',
  enrolment_id: 'enrolment',
  enrolment_code: 'enrolment',
  admin_key: 'operator',
  operator_id: 'named_operator',
  cursor: 'page',
};

/** A user, a household, or an invitation. */
const created = z.object({ id: z.string() });
const nodeRegistered = z.object({ node_id: z.string(), household_id: z.string(), api_key: z.string() });
const appIssued = z.object({ app_id: z.string(), app_key: z.string(), caller: z.string(), target: z.string() });
const operatorAdded = z.object({ operator_id: z.string() });
const enrolmentIssued = z.object({ enrolment_id: z.string(), code: z.string() });
const page = z.object({ next_cursor: z.string() });

/**
 * Real accounts and keys. Generated requests name them by symbols such as `{{app_key}}`, so that a seed generates the
 * same requests in every run; a credential that a request has ended is replaced.
 */
export class Actors {
  private readonly issued = new Map<CredentialKind, Promise<Values>>();
  private serial = 0;

  constructor(
    private readonly client: Client,
    private readonly adminKey: string,
  ) {}

  /** @returns a function that replaces the symbols in a text by live values, once it has issued all that the text needs */
  async valuesFor(
    ...texts: readonly string[]
  ): Promise<{ kinds: ReadonlySet<CredentialKind>; fill: (text: string) => string }> {
    const names = texts.flatMap((text) => [...text.matchAll(SYMBOL)].map(([, name = '']) => name));
    const kinds = new Set(names.flatMap((name) => KINDS[name] ?? []));
    const live = new Map<string, string>();
    for (const kind of kinds) for (const [name, value] of Object.entries(await this.live(kind))) live.set(name, value);
    return { kinds, fill: (text) => text.replace(SYMBOL, (symbol, name: string) => live.get(name) ?? symbol) };
  }

  /** Discards credentials, so that the next request that names them gets new ones. */
  spend(kinds: ReadonlySet<CredentialKind>): void {
    for (const kind of kinds) this.issued.delete(kind);
    if (kinds.has('user')) for (const kind of ['session', 'home'] as const) this.issued.delete(kind);
  }

  private live(kind: CredentialKind): Promise<Values> {
    const present = this.issued.get(kind);
    if (present) return present;
    const issued = this.issue(kind);
    this.issued.set(kind, issued);
    issued.catch(() => this.issued.delete(kind));
    return issued;
  }

  private async issue(kind: CredentialKind): Promise<Values> {
    this.serial += 1;
    const serial = `${process.pid}x${this.serial}`;
    switch (kind) {
      case 'operator':
        return { admin_key: this.adminKey };
      case 'user':
        return this.createUser(`fuzz${serial}@example.org`);
      case 'session':
        return this.logIn();
      case 'home':
        return this.makeHome(serial);
      case 'node':
        return nodeRegistered.parse(await this.ask('POST', '/api/v0/admin/nodes', NODE));
      case 'enrolment': {
        const { enrolment_id, code } = enrolmentIssued.parse(await this.ask('POST', '/api/v0/admin/enrolments', NODE));
        return { enrolment_id, enrolment_code: code };
      }
      case 'app': {
        const body = { caller: `fuzz-${serial}`, target: 'auth' };
        const app = appIssued.parse(await this.ask('POST', '/api/v0/admin/app-credentials', body));
        await this.ask('PUT', `/api/v0/admin/event-subscriptions/${app.caller}`, { types: ['user.deleted'] });
        return app;
      }
      case 'named_operator': {
        const body = { name: `fuzz-${serial}`, scopes: ['read'] };
        return operatorAdded.parse(await this.ask('POST', '/api/v0/admin/operators', body));
      }
      case 'page':
        return this.readCursor();
    }
  }

  private async createUser(email: string): Promise<Values & { readonly email: string; readonly password: string }> {
    const user = await this.ask('POST', '/api/v0/admin/users', { email, password: PASSWORD });
    return { user_id: created.parse(user).id, email, password: PASSWORD };
  }

  /** A generated request may disable or delete the user at any moment, so a failure is retried with a new user. */
  private async logIn(): Promise<Values> {
    for (let left = MAX_ATTEMPTS; left > 0; left -= 1) {
      const { email, password } = await this.live('user');
      const { status, json } = await this.callWithRetry('POST', '/api/v0/auth/login', { email, password });
      const tokens = status === 200 ? tokenPair.parse(json) : undefined;
      if (tokens && (await this.enrolTotp(tokens.access_token))) return tokens;
      for (const kind of ['user', 'home'] as const) this.issued.delete(kind);
    }
    throw new Error(`No login succeeded in ${MAX_ATTEMPTS} attempts`);
  }

  /** A generated request may end the session, or all that the user may do in an hour, so a failure is retried. */
  private async makeHome(serial: string): Promise<Values> {
    for (let left = MAX_ATTEMPTS; left > 0; left -= 1) {
      const home = await this.tryMakeHome(`${serial}x${left}`);
      if (home) return home;
      for (const kind of ['user', 'session'] as const) this.issued.delete(kind);
    }
    throw new Error(`No household was made in ${MAX_ATTEMPTS} attempts`);
  }

  /** @returns a household of the user, with another member, a node and an open invitation */
  private async tryMakeHome(serial: string): Promise<Values | undefined> {
    const { access_token = '' } = await this.live('session');
    const post = (path: string, body: object): Promise<JsonAnswer> =>
      this.callWithRetry('POST', `/api/v0/households${path}`, body, { Authorization: `Bearer ${access_token}` });
    const home = created.safeParse((await post('', { name: 'home' })).json);
    if (!home.success) return undefined;
    const home_id = home.data.id;
    const invitation = created.safeParse((await post(`/${home_id}/invitations`, {})).json);
    if (!invitation.success) return undefined;
    const { user_id: member_id = '' } = await this.createUser(`member${serial}@example.org`);
    const { user_id: stranger_id = '' } = await this.createUser(`stranger${serial}@example.org`);
    await this.ask('POST', `/api/v0/admin/households/${home_id}/members`, { user_id: member_id, role: 'member' });
    const node = nodeRegistered.parse(
      await this.ask('POST', '/api/v0/admin/nodes', { ...NODE, household_id: home_id }),
    );
    return { home_id, invitation_id: invitation.data.id, home_node_id: node.node_id, member_id, stranger_id };
  }

  /** Leaves the factor unconfirmed, so that logins go on to need the password only. */
  private async enrolTotp(accessToken: string): Promise<boolean> {
    const headers = { Authorization: `Bearer ${accessToken}` };
    const { status } = await this.callWithRetry('POST', '/api/v0/users/me/totp', { password: PASSWORD }, headers);
    return status === 201;
  }

  private async readCursor(): Promise<Values> {
    for (const caller of ['fuzz-a', 'fuzz-b']) {
      await this.callWithRetry('POST', '/api/v0/admin/app-credentials', { caller, target: 'auth' });
    }
    const { next_cursor: cursor } = page.parse(await this.ask('GET', '/api/v0/admin/app-credentials?limit=1'));
    return { cursor };
  }

  private async ask(method: string, path: string, body?: object): Promise<unknown> {
    const { status, json } = await this.callWithRetry(method, path, body);
    if (status >= 300) throw new Error(`${method} ${path} for a fresh credential answered ${status}`);
    return json;
  }

  private async callWithRetry(
    method: string,
    path: string,
    body?: object,
    headers: Readonly<Record<string, string>> = { 'X-Admin-Key': this.adminKey },
  ): Promise<JsonAnswer> {
    for (let left = MAX_ATTEMPTS; ; left -= 1) {
      const answer = await this.client.json(method, path, { headers, body });
      if (answer.status !== 503 || left === 0) return answer;
      await sleep(RETRY_INTERVAL_MS);
    }
  }
}
