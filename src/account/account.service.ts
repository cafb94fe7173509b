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

/** A call for which the access token is not enough. */
interface ReauthenticatedCall {
  readonly principal: UserPrincipal;
  readonly password: string;
}

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
    { principal, password, newPassword }: ReauthenticatedCall & { readonly newPassword: string },
    actor: Actor,
  ): Promise<void> {
    // Before the password is verified: a new password that the policy refuses must not cost a guess.
    this.policy.checkNewPassword(newPassword, '/new_password');
    // A refusal waits too: it may mean that an earlier try of this call has changed the password.
    await this.propagation.propagateAfter(async () => {
      const verified = await this.passwords.reauthenticateUser(principal, password, actor);
      await this.account.changePassword(verified, newPassword, actor, (transaction, userId) =>
        this.sessions.endAllSessions(transaction, userId, 'password_changed', principal.sessionId),
      );
    });
  }

  /** @throws {ProblemException} wrong_password; too_many_requests; hashing_busy; invalid_access_token */
  async deleteAccount({ principal, password }: ReauthenticatedCall, actor: Actor): Promise<void> {
    await this.propagation.propagateAfter(async () => {
      await this.account.deleteAccount(await this.passwords.reauthenticateUser(principal, password, actor), actor);
    });
  }

  async listSessions(userId: string, page: PageRequest): Promise<Page<Session>> {
    return this.sessions.listLiveSessions(userId, page);
  }

  /** @throws {ProblemException} not_found */
  async endSession(
    { userId, sessionId }: { readonly userId: string; readonly sessionId: string },
    actor: Actor,
  ): Promise<void> {
    await this.propagation.propagateAfter(() => this.sessions.endOwnSession(sessionId, userId, actor));
  }

  async endOtherSessions({ userId, sessionId }: UserPrincipal, actor: Actor): Promise<void> {
    await this.propagation.propagateAfter(() => this.sessions.endOtherSessions(userId, sessionId, actor));
  }
}
