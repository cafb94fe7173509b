/**
 * Registration that answers the same for every address (REGISTRATION_ANSWER=uniform, ASVS 6.3.8): the request only goes
 * to the outbox, and the worker makes the account. Invariant: the password of the request is never kept, because a login
 * with it would tell that the address was new; the user chooses one by the mail, which also proves the address.
 */
import { Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { toUserActor, type Actor } from '../../foundation/access/actor.js';
import { Environment } from '../../foundation/config/environment.js';
import { ComparedClock } from '../../foundation/database/compared-clock.js';
import { ProblemException, problems } from '../../foundation/problems/problems.js';
import { Throttle } from '../../foundation/throttling/throttle.js';
import { toUserEvent } from '../audit/audit-events.js';
import { AuditLog } from '../audit/audit-log.js';
import { Outbox, type AccountRequest } from '../mail/outbox.js';
import { NewPasswords } from '../passwords/new-passwords.js';
import { toInvitedUser } from './registration.js';
import { User } from './user.entity.js';

interface AskedAccount {
  readonly email: string;
  readonly password?: string | undefined;
}

@Injectable()
export class UniformRegistration {
  readonly isEnabled: boolean;

  constructor(
    private readonly dataSource: DataSource,
    private readonly passwords: NewPasswords,
    private readonly outbox: Outbox,
    private readonly throttle: Throttle,
    private readonly audit: AuditLog,
    private readonly environment: Environment,
    private readonly clock: ComparedClock,
  ) {
    this.isEnabled = environment.registrationAnswer === 'uniform';
  }

  /** @throws {ProblemException} too_many_requests, alike for addresses with and without an account */
  async requestAccount({ email, password }: AskedAccount, actor: Actor): Promise<void> {
    if (this.environment.registration === 'closed') throw new ProblemException(problems.registrationClosed);
    if (password !== undefined) this.passwords.checkNewPassword({ password, email, pointer: '/password' });
    await this.throttle.countMails([email], actor.address);
    await this.outbox.addRequest('registration', email, actor);
    this.audit.logOnly('user.mail.requested', actor, { reason: 'registration' });
  }

  /** Makes the account and invites its user, or tells the user of the account that the address has. */
  async createAccount(request: AccountRequest): Promise<void> {
    await this.dataSource.transaction(async (transaction) => {
      const { recipient: email, requestId } = request;
      const user = toInvitedUser(email, this.clock.now());
      if (await insertUnlessTaken(transaction, user)) {
        const actor = toUserActor({ door: 'open', id: null, requestId, address: null }, user.id);
        const details = { after: { is_active: true, invited: true } };
        const event = toUserEvent('user.registered', actor, user.id, { time: user.createdAt, details });
        await this.audit.record(transaction, event);
        await this.outbox.replaceRequest(transaction, request, { kind: 'account_invitation', userId: user.id });
        return;
      }
      const lock = { mode: 'pessimistic_read' } as const;
      const known = await transaction.findOne(User, { where: { email }, lock });
      // An account that was deleted meanwhile leaves the request, which is due again when its claim expires.
      if (known)
        await this.outbox.replaceRequest(transaction, request, { kind: 'registration_notice', userId: known.id });
    });
  }
}

async function insertUnlessTaken(transaction: EntityManager, user: User): Promise<boolean> {
  const insert = transaction.createQueryBuilder().insert().into(User).values(user).orIgnore().returning('id');
  const inserted = await insert.execute();
  return (inserted.raw as unknown[]).length > 0;
}
