import { Injectable } from '@nestjs/common';
import type { Request } from 'express';
import { CountedRefusals } from '../domain/audit/counted-refusals.js';
import { toActor } from '../foundation/access/actor.js';
import { toNetwork } from '../foundation/common/network.js';
import type { RefusalReason } from '../foundation/common/security-events.js';
import { problems, type ProblemException } from '../foundation/problems/problems.js';

/** Browsers send both headers with a form, and a form of another origin, or another port, is refused (CSRF). */
function isOfThisOrigin({ headers, protocol }: Request): boolean {
  const { origin, host = '', 'sec-fetch-site': site } = headers;
  const isSame = origin === undefined ? site === 'same-origin' : origin === `${protocol}://${host}`;
  return isSame && (site === undefined || site === 'same-origin');
}

/** Refuses forms that no page of this session made, and counts them by operator; those of the login by network (CSRF). */
@Injectable()
export class ForeignForms {
  constructor(private readonly refusals: CountedRefusals) {}

  async refuseOtherOrigin(request: Request): Promise<void> {
    if (!isOfThisOrigin(request)) throw await this.recordRefusal(request, 'origin');
  }

  async recordRefusal(request: Request, reason: RefusalReason<'admin.console.refused'>): Promise<ProblemException> {
    const { consoleSession: session } = request;
    const actor = toActor(request);
    const { id = 'admin', name } = session?.principal.operator ?? {};
    const refusal = { event: 'admin.console.refused', reason, fields: { operator: name } } as const;
    const about = session
      ? { counted: `forms of ${id}`, subject: id }
      : { counted: `forms of ${toNetwork(actor.address ?? undefined)}` };
    return this.refusals.recordRefusal({ problem: problems.foreignForm, refusal, ...about }, actor);
  }
}
