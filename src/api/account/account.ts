/**
 * What users do with their own account: change the password, see and end sessions, delete it. An access token alone shows
 * and ends sessions; the password is asked for again where a thief of the token could keep the owner out. When a call that
 * ends sessions has returned, no verifier accepts their tokens.
 */
import { Body, Controller, Delete, Get, Injectable, Module, Param, Post, Query, Req } from '@nestjs/common';
import { ApiOperation, ApiProperty, ApiTags } from '@nestjs/swagger';
import type { Request } from 'express';
import { DataSource } from 'typeorm';
import { toOwnCall, type OwnCall, getPrincipal } from '../../foundation/access/actor.js';
import { Answers, RequireUser } from '../../foundation/access/require.js';
import { toUserEvent } from '../../domain/audit/audit-events.js';
import { AuditLog } from '../../domain/audit/audit-log.js';
import { Clock } from '../../foundation/common/clock.js';
import { EXAMPLES } from '../../foundation/common/names.js';
import { ID, MOMENT, NETWORK, PasswordField } from '../../foundation/common/fields.js';
import { createPageResponse, PageQuery, toPageRequest } from '../../foundation/http/page.js';
import { NewPasswords } from '../../domain/passwords/new-passwords.js';
import {
  PasswordsModule,
  PasswordVerifier,
  REAUTHENTICATION_PROBLEMS,
} from '../../domain/passwords/password-verifier.js';
import { ApiProblems } from '../../foundation/problems/api-problems.js';
import { problems } from '../../foundation/problems/problems.js';
import { Propagation } from '../../domain/revocation/propagation.js';
import { SessionsService, type Session } from '../../domain/tokens/sessions.service.js';
import { TokensModule } from '../../domain/tokens/user-door.js';
import { deleteAccount, setPassword } from '../../domain/users/accounts.js';

@Injectable()
class AccountService {
  constructor(
    private readonly dataSource: DataSource,
    private readonly verifier: PasswordVerifier,
    private readonly passwords: NewPasswords,
    private readonly sessions: SessionsService,
    private readonly propagation: Propagation,
    private readonly audit: AuditLog,
    private readonly clock: Clock,
  ) {}

  async changePassword(call: OwnCall, password: string, newPassword: string): Promise<void> {
    // Before the password is verified: a new password that the policy refuses must not cost a guess.
    this.passwords.checkNewPassword(newPassword, '/new_password');
    const { principal, actor } = call;
    // A refusal waits too: it may mean that an earlier try of this call has changed the password.
    await this.propagation.propagateAfter(async () => {
      const verified = await this.verifier.reauthenticateUser(call, password);
      const { id } = verified;
      const passwordHash = await this.passwords.hashNewPassword(newPassword, actor);
      await this.dataSource.transaction(async (transaction) => {
        // Before the sessions end: a login with the old password that comes later waits for this lock, and is refused.
        await setPassword(transaction, verified, passwordHash, this.clock.now());
        const count = await this.sessions.endAllSessions(transaction, id, 'password_changed', principal.sessionId);
        const described = { details: { ended_sessions: count }, logFields: { count } };
        await this.audit.record(transaction, toUserEvent('user.password.changed', actor, id, described));
      });
    });
  }

  async deleteAccount(call: OwnCall, password: string): Promise<void> {
    await this.propagation.propagateAfter(async () => {
      const verified = await this.verifier.reauthenticateUser(call, password);
      await this.dataSource.transaction(async (transaction) => {
        await deleteAccount(transaction, verified);
        await this.audit.record(transaction, toUserEvent('user.deleted', call.actor, verified.id));
      });
    });
  }
}

const CURRENT_PASSWORD = { description: 'The password of the account. A wrong one counts like a failed login.' };

class ChangePasswordRequest {
  @PasswordField(CURRENT_PASSWORD) current_password!: string;

  @PasswordField({
    description: 'It needs PASSWORD_MIN_LENGTH characters (8) and must not be a common one.',
    example: EXAMPLES.newPassword,
  })
  new_password!: string;
}

class DeleteAccountRequest {
  @PasswordField(CURRENT_PASSWORD) password!: string;
}

interface OwnSession {
  readonly session: Session;
  readonly isCurrent: boolean;
}

/** What users see of their own sessions, and operators of all. */
export abstract class SessionFields {
  @ApiProperty(ID) id!: string;
  @ApiProperty({ ...MOMENT, description: 'the login' }) created_at!: string;

  @ApiProperty({ ...NETWORK, description: 'the network of the login: an IPv4 address, or an IPv6 /64' })
  created_from!: string | null;

  @ApiProperty({
    type: String,
    nullable: true,
    description: 'of the login: printable ASCII, at most 200 characters. The client chose it: escape it',
    example: EXAMPLES.userAgent,
  })
  user_agent!: string | null;

  @ApiProperty({ ...MOMENT, description: 'when it expires if it is not used' }) expires_at!: string;
  @ApiProperty({ ...MOMENT, description: 'when it ends even if it is used' }) absolute_expires_at!: string;

  protected static toFields(session: Session): SessionFields {
    return {
      id: session.id,
      created_at: session.createdAt.toISOString(),
      created_from: session.createdFrom,
      user_agent: session.userAgent,
      expires_at: session.expiresAt.toISOString(),
      absolute_expires_at: session.absoluteExpiresAt.toISOString(),
    };
  }
}

class OwnSessionResponse extends SessionFields {
  @ApiProperty({ description: 'whether the access token of this request belongs to it', example: true })
  is_current!: boolean;

  @ApiProperty({ ...MOMENT, description: 'the last refresh, or the login' }) last_used_at!: string;

  @ApiProperty({ ...NETWORK, description: 'the network of the last refresh, or of the login' })
  last_used_from!: string | null;

  static from({ session, isCurrent }: OwnSession): OwnSessionResponse {
    return {
      ...SessionFields.toFields(session),
      is_current: isCurrent,
      last_used_at: session.rotatedAt.toISOString(),
      last_used_from: session.rotatedFrom ?? session.createdFrom,
    };
  }
}

class OwnSessionPageResponse extends createPageResponse(OwnSessionResponse) {}

@ApiTags('users')
@Controller('api/v0/users/me')
class AccountController {
  constructor(
    private readonly account: AccountService,
    private readonly sessions: SessionsService,
    private readonly propagation: Propagation,
  ) {}

  @Post('password')
  @RequireUser()
  @ApiProblems(...REAUTHENTICATION_PROBLEMS)
  @ApiOperation({
    summary: 'Change your password',
    description:
      'Ends all other sessions of the user; this one stays. A wrong current password is counted like a failed login ' +
      'and answered with 403, because the access token is valid.',
  })
  @Answers(204, 'The password is changed, and every other session has ended')
  async changePassword(@Req() request: Request, @Body() body: ChangePasswordRequest): Promise<void> {
    await this.account.changePassword(toOwnCall(request), body.current_password, body.new_password);
  }

  @Post('delete')
  @RequireUser()
  @ApiProblems(...REAUTHENTICATION_PROBLEMS)
  @ApiOperation({
    summary: 'Delete your account',
    description: 'Deletes the account and all of its sessions. It cannot be undone. Needs the password.',
  })
  @Answers(204, 'The account is deleted, and every session of it has ended')
  async deleteOwnAccount(@Req() request: Request, @Body() { password }: DeleteAccountRequest): Promise<void> {
    await this.account.deleteAccount(toOwnCall(request), password);
  }

  @Get('sessions')
  @RequireUser()
  @ApiOperation({ summary: 'List your sessions', description: 'The live ones, oldest login first.' })
  @Answers(200, OwnSessionPageResponse)
  async listOwnSessions(@Req() request: Request, @Query() query: PageQuery): Promise<OwnSessionPageResponse> {
    const principal = getPrincipal(request, 'user');
    const { items, nextCursor } = await this.sessions.listLiveSessions(principal.userId, toPageRequest(query));
    const own = items.map((session) => ({ session, isCurrent: session.id === principal.sessionId }));
    return OwnSessionPageResponse.from({ items: own, nextCursor });
  }

  @Delete('sessions')
  @RequireUser()
  @ApiOperation({ summary: 'End all your sessions but this one' })
  @Answers(204, 'Every other session has ended, by this request or before')
  async endOtherSessions(@Req() request: Request): Promise<void> {
    const { principal, actor } = toOwnCall(request);
    await this.propagation.propagateAfter(() =>
      this.sessions.endOtherSessions(principal.userId, principal.sessionId, actor),
    );
  }

  @Delete('sessions/:id')
  @RequireUser()
  @ApiProblems(problems.notFound)
  @ApiOperation({
    summary: 'End one of your sessions',
    description: 'This one too, as a logout does. A session of another user is not found.',
  })
  @Answers(204, 'The session has ended, by this request or before')
  async endOwnSession(@Req() request: Request, @Param('id') id: string): Promise<void> {
    const { principal, actor } = toOwnCall(request);
    await this.propagation.propagateAfter(() => this.sessions.endOwnSession(id, principal.userId, actor));
  }
}

@Module({ imports: [PasswordsModule, TokensModule], controllers: [AccountController], providers: [AccountService] })
export class AccountModule {}
