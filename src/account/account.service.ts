/**
 * What users do with their own account: change the password, see and end sessions, delete it. An access token alone shows
 * and ends sessions; the password is asked for again where a thief of the token could keep the owner out. When a call that
 * ends sessions has returned, no verifier accepts their tokens.
 */
import { Injectable } from '@nestjs/common';
import type { Actor } from '../access/actor.js';
import type { UserPrincipal } from '../access/principals.js';
import type { Page, PageRequest } from '../http/page.js';
import { Propagation } from '../revocation/propagation.js';
import { SessionsService } from '../tokens/sessions.service.js';
import type { Session } from '../tokens/session.entity.js';
import { OwnAccount } from '../users/own-account.js';
import { PasswordPolicy } from '../passwords/password-policy.js';
import { PasswordVerifier } from '../passwords/password-verifier.js';

@Injectable()
export class AccountService {
  constructor(
    private readonly account: OwnAccount,
    private readonly passwords: PasswordVerifier,
    private readonly policy: PasswordPolicy,
    private readonly sessions: SessionsService,
    private readonly propagation: Propagation,
  ) {}

  /**
   * Ends all sessions of the user but this one.
   * @throws {ProblemException} validation_failed; wrong_password; too_many_requests; hashing_busy; invalid_access_token
   */
  async changePassword(
    principal: UserPrincipal,
    passwords: { current: string; next: string },
    actor: Actor,
  ): Promise<void> {
    // First, because it costs no guess.
    this.policy.checkNewPassword(passwords.next, '/new_password');
    // A refusal waits too: it may mean that an earlier try of this call has changed the password.
    await this.propagation.propagateAfter(async () => {
      const verified = await this.passwords.reauthenticateUser(principal, passwords.current, actor);
      await this.account.changePassword(verified, passwords.next, actor, (transaction, userId) =>
        this.sessions.endAllSessions(transaction, userId, 'password_changed', principal.sessionId),
      );
    });
  }

  /** @throws {ProblemException} wrong_password; too_many_requests; hashing_busy; invalid_access_token */
  async delete(principal: UserPrincipal, password: string, actor: Actor): Promise<void> {
    await this.propagation.propagateAfter(async () => {
      await this.account.deleteAccount(await this.passwords.reauthenticateUser(principal, password, actor), actor);
    });
  }

  async listSessions({ userId }: UserPrincipal, page: PageRequest): Promise<Page<Session>> {
    return this.sessions.listLiveSessions(userId, page);
  }

  /** @throws {ProblemException} not_found */
  async endSession({ userId }: UserPrincipal, sessionId: string, actor: Actor): Promise<void> {
    await this.propagation.propagateAfter(() => this.sessions.endOwnSession(sessionId, userId, actor));
  }

  async endOtherSessions({ userId, sessionId }: UserPrincipal, actor: Actor): Promise<void> {
    await this.propagation.propagateAfter(() => this.sessions.endOtherSessions(userId, sessionId, actor));
  }
}
