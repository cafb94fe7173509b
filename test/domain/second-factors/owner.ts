import { Secret } from 'otpauth';
import type { Response, Test as SupertestRequest } from 'supertest';
import { computeTotpCode } from '../../../src/domain/second-factors/totp.js';
import { Owner } from '../../support/owner.js';
import { PASSWORD } from '../../support/settings.js';
import type { TestApp, Tokens } from '../../support/test-app.js';
import { Authenticator } from './authenticator.js';

const STEP_SECONDS = 30;

export interface Challenge {
  readonly methods: string[];
  readonly challenge: string;
  readonly passkey_options: { challenge: string; allowCredentials: { id: string }[]; userVerification: string };
}
interface CreationOptions {
  readonly challenge: string;
  readonly user: { id: string; name: string };
}

/** A user with second factors, and the app that makes the codes. */
export class FactorOwner extends Owner {
  secret = '';
  recoveryCodes: string[] = [];
  /** The passkey that was registered first. */
  authenticator?: Authenticator;

  /** A user whose logins ask for a code. The next code is a fresh one. */
  static async withTotp(app: TestApp): Promise<FactorOwner> {
    const owner = await FactorOwner.of(app);
    await owner.enrols();
    app.clock.advance({ seconds: 2 * STEP_SECONDS });
    return owner;
  }

  post(path: string, body: object = {}, app = this.app): SupertestRequest {
    return this.as(app.post(`/api/v0/users/me${path}`, body));
  }

  get(path: string): SupertestRequest {
    return this.as(this.app.get(`/api/v0/users/me${path}`));
  }

  /** Begins the enrolment of an app. */
  async begins(password = PASSWORD): Promise<void> {
    const { body } = await this.post('/totp', { password }).expect(201);
    this.secret = (body as { secret: string }).secret;
  }

  async enrols(): Promise<void> {
    await this.begins();
    const confirmed = await this.post('/totp/confirm', { code: this.code() }).expect(200);
    this.recoveryCodes = (confirmed.body as { recovery_codes: string[] }).recovery_codes;
  }

  /** @param offset in time steps */
  code(offset = 0): string {
    const step = Math.floor(this.app.clock.now().getTime() / 1_000 / STEP_SECONDS) + offset;
    return computeTotpCode(Buffer.from(Secret.fromBase32(this.secret).bytes), step);
  }

  /** A code that is wrong now, and in the steps around. */
  wrongCode(): string {
    const right = [-2, -1, 0, 1, 2].map((offset) => this.code(offset));
    return ['000000', '111111', '222222', '333333', '444444', '555555'].find((code) => !right.includes(code))!;
  }

  async isChallenged(app = this.app, password = PASSWORD): Promise<Challenge> {
    return (await app.login(this.user.email, password).expect(403)).body as Challenge;
  }

  answers(challenge: string, method: string, proof: object, app = this.app): SupertestRequest {
    return app.post('/api/v0/auth/login/second-factor', { challenge, method, ...proof });
  }

  async logsInWithCode(app = this.app): Promise<Tokens> {
    const { challenge } = await this.isChallenged(app);
    return (await this.answers(challenge, 'totp', { code: this.code() }, app).expect(200)).body as Tokens;
  }

  /** What an act asks for: the password and, of an account with a second factor, a fresh one. */
  async proof(password = PASSWORD): Promise<{ password: string; code?: string; passkey?: object }> {
    if (this.authenticator) return { password, passkey: await this.freshPasskey(this.authenticator) };
    const code = this.recoveryCodes.pop();
    return { password, ...(code !== undefined && { code }) };
  }

  /** The answer of a passkey to the options that an act without a fresh factor gets. */
  async freshPasskey(authenticator: Authenticator): Promise<object> {
    const { body } = await this.post('/passkeys/options', { password: PASSWORD }).expect(403);
    return authenticator.get((body as Challenge).passkey_options);
  }

  async creationOptions(): Promise<CreationOptions> {
    return (await this.post('/passkeys/options', await this.proof()).expect(200)).body as CreationOptions;
  }

  /** Sends what the browser answered to the options of a passkey. */
  offers(passkey: object, app = this.app): SupertestRequest {
    return this.post('/passkeys', { name: 'phone', passkey }, app);
  }

  async registers(authenticator = new Authenticator()): Promise<Authenticator> {
    await this.offers(authenticator.create(await this.creationOptions())).expect(201);
    this.authenticator ??= authenticator;
    return authenticator;
  }

  async passkeyIds(): Promise<string[]> {
    const { body } = await this.get('/passkeys').expect(200);
    return (body as { items: { id: string }[] }).items.map(({ id }) => id);
  }

  async removesPasskey(id: string | undefined): Promise<Response> {
    return this.post(`/passkeys/${id}/remove`, await this.proof());
  }

  /** The answer of a passkey to the challenge of a new login. */
  async answersWith(authenticator: Authenticator): Promise<Response> {
    const { challenge } = await this.isChallenged();
    return this.answers(challenge, 'passkey', { passkey: authenticator.get({ challenge }) });
  }
}

/** A login with a passkey and nothing else. */
export async function passkeyOptions(app: TestApp): Promise<{ challenge: string }> {
  return (await app.post('/api/v0/auth/login/passkey/options', {}).expect(200)).body as { challenge: string };
}

export function logInWithPasskey(app: TestApp, passkey: object): SupertestRequest {
  return app.post('/api/v0/auth/login/passkey', { passkey });
}

export async function logInAlone(app: TestApp, authenticator: Authenticator): Promise<Response> {
  return logInWithPasskey(app, authenticator.get(await passkeyOptions(app)));
}
