// Accounts of every kind, and the routes that must answer an anonymous client alike, and in the same time, for all of
// them.
import { randomBytes } from 'node:crypto';
import { TOTP } from 'otpauth';
import { parse } from 'uuid';
import { z } from 'zod';
import { generateCode } from '../src/domain/keys/one-time-codes.js';
import { tokenPair } from '../tools/api-client.js';
import { withClient } from '../tools/postgres.js';
import type { Client } from './send.js';
import type { FuzzedService } from './service.js';

const ACCOUNTS = 20;
const PASSWORD = 'a perfectly fine passphrase';
/** As long as the right one. */
const WRONG_PASSWORD = 'a perfectly poor passphrase';

/** The local parts of the addresses, all of the same length. `verified` and `factor` are active accounts too. */
const LOCAL_PARTS = {
  unknown: 'absent',
  active: 'active',
  verified: 'proven',
  disabled: 'closed',
  factor: 'factor',
} as const;

export type Kind = keyof typeof LOCAL_PARTS;

export interface TimedRequest {
  readonly method: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: object;
}

/** A route, and the pairs of kinds that it must not tell apart. */
export interface Route {
  readonly name: string;
  readonly status: number;
  readonly pairs: readonly (readonly [Kind, Kind])[];
  readonly toRequest: (kind: Kind, round: number) => TimedRequest;
}

/** The parts of a challenge (src/domain/webauthn/challenges.ts) that a client can read, and so can forge. */
const CHALLENGE = { bytes: 71, timeAt: 1, timeBytes: 6, userAt: 7, userBytes: 16 };
const UNKNOWN_TAIL_BYTES = 6;

const created = z.object({ id: z.string() });
const issued = z.object({ enrolment_id: z.string(), code: z.string() });
const NODE = { household_id: '5b1c7a9e-0d35-4c8e-9a57-6f0b1f4f2a10', room: 'hall', name: 'lamp' };
const enrolment = z.object({ secret: z.string() });
const challenged = z.object({ challenge: z.string() });

type Bearer = Readonly<Record<'Authorization', string>>;
type Ids = Readonly<Record<Kind, readonly string[]>>;

/** Makes the accounts, and returns the routes. */
export async function prepareRoutes(service: FuzzedService, client: Client): Promise<readonly Route[]> {
  const setup = new Setup(client, service.adminKey);
  const ids = {
    active: await setup.create('active'),
    verified: await setup.create('verified'),
    disabled: await setup.create('disabled'),
    factor: await setup.create('factor'),
  };
  await withClient(service.databaseUrl, (database) =>
    database.query('UPDATE users SET email_verified_at = now() WHERE id = ANY($1)', [ids.verified]),
  );
  for (const id of ids.disabled) await setup.admin('PATCH', `/api/v0/admin/users/${id}`, { is_active: false });
  for (let number = 0; number < ACCOUNTS; number += 1) await setup.enrolTotp(emailOf('factor', number));
  const challenge = await setup.readChallenge(emailOf('factor', 0), ids.factor[0] ?? '');
  const codes = await setup.issueCodes();
  await withClient(service.databaseUrl, (database) => database.query('UPDATE node_enrolments SET expires_at = now()'));
  const routes = toRoutes({ ...ids, unknown: ids.active.map(toUnknownId) }, challenge);
  return [...routes, toEnrolRoute(codes), ...(await setup.makeHouseholdRoutes())];
}

function toRoutes(ids: Ids, challenge: Buffer): readonly Route[] {
  const toForgedAnswer = (kind: Kind, round: number): object => ({
    challenge: forge(challenge, ids[kind][round % ACCOUNTS] ?? ''),
    method: 'totp',
    code: '000000',
  });
  return [
    {
      name: 'login',
      status: 401,
      pairs: [...toPairs('unknown', 'active', 'disabled', 'factor'), ...toPairs('active', 'disabled', 'factor')],
      toRequest: post('/api/v0/auth/login', toCredentials),
    },
    {
      name: 'reset',
      status: 202,
      pairs: toPairs('unknown', 'active', 'disabled', 'factor'),
      toRequest: post('/api/v0/auth/password-reset', toLinkRequest),
    },
    {
      name: 'verification',
      status: 202,
      pairs: [...toPairs('unknown', 'active', 'verified', 'disabled'), ['active', 'verified']],
      toRequest: post('/api/v0/auth/email-verification', toLinkRequest),
    },
    {
      // Registration reveals by design that an address is taken, but must not reveal which kind of account has it.
      name: 'registration',
      status: 409,
      pairs: toPairs('active', 'verified', 'disabled', 'factor'),
      toRequest: post('/api/v0/auth/register', (kind, round) => ({ email: emailOf(kind, round), password: PASSWORD })),
    },
    {
      name: 'challenge',
      status: 401,
      pairs: [...toPairs('unknown', 'active', 'disabled', 'factor'), ['active', 'factor']],
      toRequest: post('/api/v0/auth/login/second-factor', toForgedAnswer),
    },
  ];
}

/** Here `disabled` stands for an expired code, and `active` for text that is not a code. */
function toEnrolRoute(expired: readonly string[]): Route {
  const toCode: Partial<Record<Kind, (round: number) => string | undefined>> = {
    disabled: (round) => expired[round % ACCOUNTS],
    active: () => 'XXXXX-XXXXX',
  };
  return {
    name: 'enrolment',
    status: 404,
    pairs: toPairs('unknown', 'disabled', 'active'),
    toRequest: post('/api/v0/nodes/enrol', (kind, round) => ({ code: (toCode[kind] ?? generateCode)(round) })),
  };
}

/**
 * Routes of a household for a user who is no member. Here `active` stands for a household of somebody else, and
 * `unknown` for an id that no household has.
 */
function toHouseholdRoutes(headers: Bearer, householdIds: readonly string[]): readonly Route[] {
  const ids: Partial<Ids> = { active: householdIds, unknown: householdIds.map(toUnknownId) };
  return ['', '/members', '/invitations', '/nodes'].map((rest) => ({
    name: `household${rest}`,
    status: 404,
    pairs: toPairs('unknown', 'active'),
    toRequest: (kind, round) => ({
      method: 'GET',
      path: `/api/v0/households/${ids[kind]?.[round % ACCOUNTS]}${rest}`,
      headers,
    }),
  }));
}

function post(path: string, toBody: (kind: Kind, round: number) => object): Route['toRequest'] {
  return (kind, round) => ({ method: 'POST', path, body: toBody(kind, round) });
}

/** @returns the kinds of the pairs, each once */
export function listKinds({ pairs }: Pick<Route, 'pairs'>): Kind[] {
  return [...new Set(pairs.flat())];
}

class Setup {
  constructor(
    private readonly client: Client,
    private readonly adminKey: string,
  ) {}

  async admin(method: string, path: string, body: object): Promise<unknown> {
    return this.call(method, path, body, { 'X-Admin-Key': this.adminKey });
  }

  /** @returns the ids of the accounts */
  async create(kind: Kind): Promise<string[]> {
    const ids: string[] = [];
    for (let number = 0; number < ACCOUNTS; number += 1) {
      const body = { email: emailOf(kind, number), password: PASSWORD };
      ids.push(created.parse(await this.admin('POST', '/api/v0/admin/users', body)).id);
    }
    return ids;
  }

  async issueCodes(): Promise<string[]> {
    const codes: string[] = [];
    for (let number = 0; number < ACCOUNTS; number += 1)
      codes.push(issued.parse(await this.admin('POST', '/api/v0/admin/enrolments', NODE)).code);
    return codes;
  }

  /** One account has the households, and another one asks for them. */
  async makeHouseholdRoutes(): Promise<readonly Route[]> {
    const owner = await this.logIn(emailOf('active', 0));
    const ids: string[] = [];
    for (let number = 0; number < ACCOUNTS; number += 1)
      ids.push(created.parse(await this.call('POST', '/api/v0/households', { name: 'home' }, owner)).id);
    return toHouseholdRoutes(await this.logIn(emailOf('active', 1)), ids);
  }

  /** Adds a confirmed authenticator app, so that a login needs a code. */
  async enrolTotp(email: string): Promise<void> {
    const bearer = await this.logIn(email);
    const body = { password: PASSWORD };
    const { secret } = enrolment.parse(await this.call('POST', '/api/v0/users/me/totp', body, bearer));
    await this.call('POST', '/api/v0/users/me/totp/confirm', { code: new TOTP({ secret }).generate() }, bearer);
  }

  private async logIn(email: string): Promise<Bearer> {
    const tokens = await this.call('POST', '/api/v0/auth/login', { email, password: PASSWORD });
    return { Authorization: `Bearer ${tokenPair.parse(tokens).access_token}` };
  }

  /**
   * @throws when a challenge has another layout than {@link forge} knows, because every forged one would then be
   * refused unread
   */
  async readChallenge(email: string, userId: string): Promise<Buffer> {
    const body = { email, password: PASSWORD };
    const { status, json } = await this.client.json('POST', '/api/v0/auth/login', { headers: {}, body });
    if (status !== 403) throw new Error(`A login of an account with a second factor answered ${status}`);
    const challenge = Buffer.from(challenged.parse(json).challenge, 'base64url');
    const { bytes, userAt, userBytes } = CHALLENGE;
    if (challenge.length !== bytes || !challenge.subarray(userAt, userAt + userBytes).equals(parse(userId)))
      throw new Error('The layout of challenges has changed: see src/domain/webauthn/challenges.ts');
    return challenge;
  }

  private async call(method: string, path: string, body: object, headers = {}): Promise<unknown> {
    const { status, json } = await this.client.json(method, path, { headers, body });
    if (status >= 300) throw new Error(`${method} ${path} answered ${status}`);
    return json;
  }
}

function toPairs(one: Kind, ...others: readonly Kind[]): [Kind, Kind][] {
  return others.map((other) => [one, other]);
}

function emailOf(kind: Kind, round: number): string {
  return `${LOCAL_PARTS[kind]}-${String(round % ACCOUNTS).padStart(4, '0')}@example.org`;
}

function toCredentials(kind: Kind, round: number): object {
  // A disabled account gets its right password, because only then the login finds out that it is disabled.
  const password = kind === 'disabled' ? PASSWORD : WRONG_PASSWORD;
  return { email: emailOf(kind, round), password };
}

/** While the times are taken, the worker mails resets to active accounts only, and verifications to unverified ones only. */
function toLinkRequest(kind: Kind, round: number): object {
  return { email: emailOf(kind, round) };
}

/** @returns an id without an account, next to the given one in the index */
function toUnknownId(id: string): string {
  return `${id.slice(0, -2 * UNKNOWN_TAIL_BYTES)}${randomBytes(UNKNOWN_TAIL_BYTES).toString('hex')}`;
}

/** @returns a fresh challenge of the user with a wrong HMAC */
function forge(challenge: Buffer, userId: string): string {
  const { timeAt, timeBytes, userAt, userBytes } = CHALLENGE;
  const forged = Buffer.from(challenge);
  forged.writeUIntBE(Date.now(), timeAt, timeBytes);
  forged.set(parse(userId), userAt);
  forged.set(randomBytes(forged.length - userAt - userBytes), userAt + userBytes);
  return forged.toString('base64url');
}
