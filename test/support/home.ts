import type { Test as SupertestRequest } from 'supertest';
import { Owner } from './owner.js';
import { PASSWORD } from './settings.js';
import type { TestApp } from './test-app.js';

interface Household {
  readonly id: string;
  readonly role: string;
}

/** A household, with the calls of its people. The owners are users in a session of theirs. */
export class Home {
  private constructor(
    readonly app: TestApp,
    readonly id: string,
    /** Who made it. */
    readonly admin: Owner,
  ) {}

  static async of(app: TestApp, admin?: Owner): Promise<Home> {
    const owner = admin ?? (await Owner.of(app));
    const { body } = await owner.as(app.post('/api/v0/households', { name: 'home' })).expect(201);
    return new Home(app, (body as Household).id, owner);
  }

  private get path(): string {
    return `/api/v0/households/${this.id}`;
  }

  get(owner: Owner, path = '', app = this.app): SupertestRequest {
    return owner.as(app.get(this.path + path));
  }

  rename(owner: Owner, name: string): SupertestRequest {
    return owner.as(this.app.patch(this.path, { name }));
  }

  deleteBy(owner: Owner, password: string | undefined = PASSWORD, query = ''): SupertestRequest {
    return owner.as(this.app.delete(this.path + query)).send({ password });
  }

  setRole(by: Owner, { user }: Owner, role: string, password: string | null = PASSWORD): SupertestRequest {
    return by.as(this.app.patch(`${this.path}/members/${user.id}`, { role, ...(password && { password }) }));
  }

  remove(by: Owner, { user }: Owner, password: string | null = PASSWORD): SupertestRequest {
    const call = by.as(this.app.delete(`${this.path}/members/${user.id}`));
    return password === null ? call : call.send({ password });
  }

  leave(owner: Owner): SupertestRequest {
    return this.remove(owner, owner, null);
  }

  invite(by = this.admin, body?: object): SupertestRequest {
    return by.as(this.app.post(`${this.path}/invitations`, body));
  }

  cancel(by: Owner, invitationId: string): SupertestRequest {
    return by.as(this.app.delete(`${this.path}/invitations/${invitationId}`));
  }

  enrolment(by = this.admin): SupertestRequest {
    return by.as(this.app.post(`${this.path}/enrolments`, { room: 'hall', name: 'lamp' }));
  }

  revokeNode(by: Owner, nodeId: string): SupertestRequest {
    return by.as(this.app.delete(`${this.path}/nodes/${nodeId}`));
  }

  /** @returns the code of a new invitation */
  async code(by = this.admin): Promise<string> {
    return ((await this.invite(by).expect(201)).body as { code: string }).code;
  }

  /** @returns a new member */
  async member(): Promise<Owner> {
    const owner = await Owner.of(this.app);
    await accept(this.app, owner, await this.code()).expect(200);
    return owner;
  }

  /** @returns a new member who is an admin */
  async secondAdmin(): Promise<Owner> {
    const owner = await this.member();
    await this.setRole(this.admin, owner, 'admin').expect(200);
    return owner;
  }

  /** @returns the role in this household that a service is told; undefined for who is no member */
  async roleOf(owner: Owner, app = this.app): Promise<string | undefined> {
    const { body } = await owner.as(app.post('/internal/validate-user')).expect(200);
    return (body as { households: Household[] }).households.find(({ id }) => id === this.id)?.role;
  }
}

/** From an address of its own, so that wrong codes of other tests do not count. */
export function accept(app: TestApp, owner: Owner, code: string, address = newAddress()): SupertestRequest {
  return owner.as(app.post('/api/v0/invitations/accept', { code })).set('X-Forwarded-For', address);
}

let addresses = 0;

function newAddress(): string {
  addresses += 1;
  return `10.1.${addresses >> 8}.${addresses & 255}`;
}
