import { Injectable } from '@nestjs/common';
import { PassportStrategy } from '@nestjs/passport';
import type { Request } from 'express';
import { toActor, type AdminPrincipal, type OperatorIdentity } from '../../foundation/access/actor.js';
import { Doors, type DoorReason, HeaderKeyStrategy } from '../../foundation/access/doors.js';
import { CountedRefusals } from '../../domain/audit/counted-refusals.js';
import { listAcceptedScopes, type RouteScope, type Scope } from '../../foundation/common/names.js';
import { getClientAddress, toNetwork } from '../../foundation/common/network.js';
import { Environment } from '../../foundation/config/environment.js';
import { isSameSecret } from '../../foundation/crypto/secret.js';
import { describeMissingScope, OperatorsService } from '../../domain/operators/operators.service.js';
import type { ResponseLocals } from '../../foundation/problems/problem.filter.js';
import { problems, type ProblemException } from '../../foundation/problems/problems.js';
import { Throttle } from '../../foundation/throttling/throttle.js';

const ROOT: AdminPrincipal = { door: 'admin', operator: null };

/**
 * The admin door: `X-Admin-Key` must be ADMIN_API_KEY, the root key, or the key of an operator with a scope of the route.
 * Wrong keys are throttled by network and counted in the audit log. A valid key is never throttled: it has 256 bits, so the
 * limit protects the logs and the CPU, and must not shut an operator out (docs/decisions/0030).
 */
@Injectable()
export class AdminStrategy extends PassportStrategy(HeaderKeyStrategy, 'admin') {
  constructor(
    doors: Doors,
    private readonly environment: Environment,
    private readonly operators: OperatorsService,
    private readonly throttle: Throttle,
    private readonly refusals: CountedRefusals,
  ) {
    super('X-Admin-Key');
    doors.install('admin', this);
  }

  async validate(request: Request, key: string): Promise<AdminPrincipal> {
    const principal = await this.verifyAdminKey(request, key);
    // Set before the scope is checked, so that metrics, log and audit log name the operator of a refused call.
    request.user = principal;
    const { scope } = (request.res?.locals ?? {}) as ResponseLocals;
    if (scope === undefined) throw new Error('The route declares no scope');
    await this.requireScope(request, principal, scope);
    return principal;
  }

  /** @throws {ProblemException} invalid_admin_key, which is counted; too_many_requests */
  async verifyAdminKey(request: Request, key: string): Promise<AdminPrincipal> {
    const { adminApiKey } = this.environment;
    if (adminApiKey !== undefined && isSameSecret(key, adminApiKey)) return ROOT;
    const verdict = await this.operators.verifyOperatorKey(key);
    if (!verdict.valid) {
      if (verdict.reason === 'unknown') throw await this.recordRefusal(request, 'wrong_key');
      throw await this.recordRefusal(request, verdict.reason, verdict.operator);
    }
    return { door: 'admin', operator: verdict.operator };
  }

  /** @param method of the route that has this scope. @throws {ProblemException} missing_scope, which is counted */
  async requireScope(
    request: Request,
    { operator }: AdminPrincipal,
    scope: RouteScope,
    method = request.method,
  ): Promise<void> {
    if (operator === null || !lacksScope(operator, scope, method)) return;
    const accepted = listAcceptedScopes(scope, method);
    throw await this.refusals.recordRefusal(describeMissingScope(operator, scope, accepted), toActor(request));
  }

  private async recordRefusal(
    request: Request,
    reason: DoorReason<'admin'>,
    operator?: OperatorIdentity,
  ): Promise<ProblemException> {
    const network = toNetwork(getClientAddress(request));
    await this.throttle.countCall('admin-key', getClientAddress(request));
    const fields = { door: 'admin', ...(operator && { operator_id: operator.id, operator: operator.name }) };
    const refusal = { event: 'admin.key.refused', reason, fields } as const;
    const counted = { problem: problems.invalidAdminKey, refusal, counted: network, subject: network };
    return this.refusals.recordRefusal(counted, toActor(request));
  }
}

/** Whether an operator may not call a route with this scope and method. Each operator has a scope, so none lacks `any`. */
export function lacksScope(operator: OperatorIdentity, scope: RouteScope, method: string): scope is Scope {
  return !listAcceptedScopes(scope, method).some((each) => operator.scopes.includes(each));
}
