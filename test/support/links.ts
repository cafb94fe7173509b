import type { Test as SupertestRequest } from 'supertest';
import { receiveToken, type MailServer } from './mail-server.js';
import { NEW_PASSWORD } from './owner.js';
import type { TestApp } from './test-app.js';

/** What users do with the links of an application, whose mails this server receives. */
export class Links {
  constructor(
    private readonly app: TestApp,
    private readonly server: MailServer,
  ) {}

  requestReset(email: string): SupertestRequest {
    return this.app.post('/api/v0/auth/password-reset', { email });
  }

  confirmReset(token: string, new_password = NEW_PASSWORD): SupertestRequest {
    return this.app.post('/api/v0/auth/password-reset/confirm', { token, new_password });
  }

  requestVerification(email: string): SupertestRequest {
    return this.app.post('/api/v0/auth/email-verification', { email });
  }

  /** Proves an address, or changes it. */
  confirmEmail(token: string, app = this.app): SupertestRequest {
    return app.post('/api/v0/auth/email-verification/confirm', { token });
  }

  /** Makes a request that is answered with 202. @returns the token of the mail that it causes */
  async tokenOf(request: SupertestRequest, email: string): Promise<string> {
    const count = this.server.tokensTo(email).length + 1;
    await request.expect(202);
    return receiveToken(this.app, this.server, email, count);
  }

  resetToken(email: string): Promise<string> {
    return this.tokenOf(this.requestReset(email), email);
  }

  verificationToken(email: string): Promise<string> {
    return this.tokenOf(this.requestVerification(email), email);
  }

  /** The token that an operator hands over. */
  async handOver(userId: string): Promise<{ token: string; expires_at: string }> {
    const { body } = await this.app.admin.post(`/users/${userId}/password-reset`).expect(201);
    return body as { token: string; expires_at: string };
  }
}
