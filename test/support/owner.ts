import type { Test as SupertestRequest } from 'supertest';
import { PASSWORD } from './settings.js';
import type { TestApp, Tokens, User } from './test-app.js';

export const NEW_PASSWORD = 'quite another passphrase';
export const WRONG = 'not her passphrase';

export interface OwnSession {
  readonly id: string;
  readonly is_current: boolean;
  readonly created_from: string | null;
  readonly user_agent: string | null;
  readonly created_at: string;
  readonly last_used_at: string;
  readonly last_used_from: string | null;
}

type OwnerClass<Kind> = new (...parameters: ConstructorParameters<typeof Owner>) => Kind;

/** A user in one of their sessions. */
export class Owner {
  constructor(
    readonly app: TestApp,
    readonly user: User,
    readonly tokens: Tokens,
  ) {}

  static async of<Kind extends Owner>(this: OwnerClass<Kind>, app: TestApp): Promise<Kind> {
    const user = await app.user();
    return new this(app, user, await user.logsIn());
  }

  /** @returns the user in another session */
  static async in(app: TestApp, user: User): Promise<Owner> {
    return new Owner(app, user, await user.logsIn());
  }

  elsewhere(): Promise<Owner> {
    return Owner.in(this.app, this.user);
  }

  as(call: SupertestRequest): SupertestRequest {
    return call.set('Authorization', `Bearer ${this.tokens.access_token}`);
  }

  changePassword(current = PASSWORD, next = NEW_PASSWORD, app = this.app): SupertestRequest {
    const body = { current_password: current, new_password: next };
    return this.as(app.post('/api/v0/users/me/password', body));
  }

  changeEmail(new_email: string, password = PASSWORD, app = this.app): SupertestRequest {
    return this.as(app.post('/api/v0/users/me/email', { password, new_email }));
  }

  deleteAccount(password = PASSWORD, app = this.app): SupertestRequest {
    return this.as(app.post('/api/v0/users/me/delete', { password }));
  }

  end(sessionId: string, app = this.app): SupertestRequest {
    return this.as(app.delete(`/api/v0/users/me/sessions/${sessionId}`));
  }

  endOthers(app = this.app): SupertestRequest {
    return this.as(app.delete('/api/v0/users/me/sessions'));
  }

  async sessions(): Promise<OwnSession[]> {
    const { body } = await this.as(this.app.get('/api/v0/users/me/sessions')).expect(200);
    return (body as { items: OwnSession[] }).items;
  }

  async sessionId(): Promise<string> {
    return (await this.sessions()).find(({ is_current }) => is_current)!.id;
  }

  /** Whether both tokens are accepted. */
  async isLive(app = this.app): Promise<boolean> {
    const { status } = await app.me(this.tokens.access_token);
    const refreshed = await app.refresh(this.tokens.refresh_token);
    expect([status, refreshed.status]).toEqual(status === 200 ? [200, 200] : [401, 401]);
    return status === 200;
  }
}
