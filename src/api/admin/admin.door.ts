import { Injectable } from '@nestjs/common';
import type { Actor } from '../../foundation/access/actor.js';
import type { AdminPrincipal, OperatorIdentity } from '../../foundation/access/principals.js';
import type { DoorReason } from '../../foundation/access/doors.js';
import { CountedRefusals } from '../../domain/audit/counted-refusals.js';
import { listAcceptedScopes, type RouteScope } from '../../foundation/common/names.js';
import { toNetwork } from '../../foundation/common/network.js';
import { Environment } from '../../foundation/config/environment.js';
import { isSameSecret } from '../../foundation/crypto/secret.js';
import { describeMissingScope, OperatorsService } from '../../domain/operators/operators.service.js';
import { problems, type ProblemException } from '../../foundation/problems/problems.js';
import { Throttle } from '../../foundation/throttling/throttle.js';

const ROOT: AdminPrincipal = { door: 'admin', operator: null };

/**
 * The admin door: the key must be ADMIN_API_KEY (the root key), or that of an operator with a scope of the route. Wrong
 * keys are throttled by network and counted in the audit log; a valid key has 256 bits and is never throttled
 * (docs/decisions/0030).
 */
@Injectable()
export class AdminDoor {
  constructor(
    private readonly environment: Environment,
    private readonly operators: OperatorsService,
    private readonly throttle: Throttle,
    private readonly refusals: CountedRefusals,
  ) {}

  /** @throws {ProblemException} invalid_admin_key, which is counted; too_many_requests */
  async verifyAdminKey(key: string, getActor: () => Actor): Promise<AdminPrincipal> {
    const { adminApiKey } = this.environment;
    if (adminApiKey !== undefined && isSameSecret(key, adminApiKey)) return ROOT;
    const verdict = await this.operators.verifyOperatorKey(key);
    if (!verdict.valid) {
      if (verdict.reason === 'unknown') throw await this.recordRefusal('wrong_key', getActor());
      throw await this.recordRefusal(verdict.reason, getActor(), verdict.operator);
    }
    return { door: 'admin', operator: verdict.operator };
  }

  /** @param method of the route that has this scope. @throws {ProblemException} missing_scope, which is counted */
  async refuseMissingScope(
    principal: AdminPrincipal,
    scope: RouteScope,
    method: string,
    getActor: () => Actor,
  ): Promise<void> {
    const { operator } = principal;
    if (operator === null || scope === 'any' || hasScope(principal, scope, method)) return;
    const accepted = listAcceptedScopes(scope, method);
    throw await this.refusals.recordRefusal(describeMissingScope(operator, scope, accepted), getActor());
  }

  /** Counts an answer to the console that is not one of the operator's passkeys. @returns the refusal */
  async refusePasskey(actor: Actor): Promise<ProblemException> {
    return this.recordRefusal('wrong_passkey', actor);
  }

  private async recordRefusal(
    reason: DoorReason<'admin'>,
    actor: Actor,
    operator?: OperatorIdentity,
  ): Promise<ProblemException> {
    const address = actor.address ?? undefined;
    const network = toNetwork(address);
    await this.throttle.countCall('admin-key', address);
    const fields = { door: 'admin', ...(operator && { operator_id: operator.id, operator: operator.name }) };
    const refusal = { event: 'admin.key.refused', reason, fields } as const;
    const counted = { problem: problems.invalidAdminKey, refusal, counted: network, subject: network };
    return this.refusals.recordRefusal(counted, actor);
  }
}

/** Whether a key may call a route with this scope and method. The root key has every scope. */
export function hasScope({ operator }: AdminPrincipal, scope: RouteScope, method: string): boolean {
  return operator === null || listAcceptedScopes(scope, method).some((each) => operator.scopes.includes(each));
}
