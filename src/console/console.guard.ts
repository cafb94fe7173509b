/**
 * Asks for a session and checks each form. Invariants: a request that changes something comes from a form that a page of
 * this session made, from this origin, and is done once (ASVS 3.5.1); GET changes nothing.
 */
import { Injectable, SetMetadata, type CanActivate, type ExecutionContext } from '@nestjs/common';
import type { Request } from 'express';
import { hasScope } from '../api/admin/admin.door.js';
import { Environment } from '../foundation/config/environment.js';
import { ProblemException, problems } from '../foundation/problems/problems.js';
import { AdminApi } from './admin-api.js';
import { ConsoleRefusalError, readFields } from './console-requests.js';
import { ConsoleSessions, readFormToken, type ConsoleSession } from './console-sessions.js';
import { ForeignForms } from './foreign-forms.js';
import { readTimeZone } from './moments.js';
import { NavigationCounts } from './navigation-counts.js';
import { listOfferedPages } from './navigation.js';
import { readCookie } from './session-cookie.js';

/** The request has no cookie of a session, or an ended one. */
export class NotLoggedInError extends Error {
  override readonly name = 'NotLoggedInError';
}

const READS_ONLY = 'console-reads-only';

/** A form that changes nothing, such as a search: it may be sent again, as a browser does at a reload. */
export const ReadsOnly = () => SetMetadata(READS_ONLY, true);

@Injectable()
export class ConsoleGuard implements CanActivate {
  constructor(
    private readonly sessions: ConsoleSessions,
    private readonly api: AdminApi,
    private readonly counts: NavigationCounts,
    private readonly foreignForms: ForeignForms,
    private readonly environment: Environment,
  ) {}

  async canActivate(context: ExecutionContext): Promise<true> {
    const request = context.switchToHttp().getRequest<Request>();
    if (Object.values(request.query).some((value) => typeof value !== 'string'))
      throw new ProblemException(problems.malformedRequest);
    const token = readCookie(request);
    // A page that refreshes itself must not keep the session alive.
    const isActive = request.headers['x-console-refresh'] === undefined;
    const session = token === undefined ? undefined : await this.sessions.findSession(token, isActive);
    if (!session) throw new NotLoggedInError();
    request.user = session.principal;
    const counts = await this.counts.readCounts((scope) => hasScope(session.principal, scope, 'GET'));
    request.consoleSession = {
      ...session,
      label: this.environment.consoleLabel,
      timeZone: readTimeZone(request.headers.cookie),
      pages: listOfferedPages(this.api.bindTo(request), session.principal, counts),
    };
    if (request.method !== 'GET' && request.method !== 'HEAD') await this.claimForm(request, session, context);
    return true;
  }

  private async claimForm(request: Request, session: ConsoleSession, context: ExecutionContext): Promise<void> {
    await this.foreignForms.refuseOtherOrigin(request);
    const form = readFormToken(session, readFields(request).form ?? '', request.path);
    if (form === undefined) throw await this.foreignForms.recordRefusal(request, 'form');
    if (Reflect.getMetadata(READS_ONLY, context.getHandler()) === true) return;
    const advice =
      'It was done once, and not again. A new key was shown in the first answer only: if you do not have it, rotate the key.';
    if (!(await this.sessions.claimForm(session, form)))
      throw new ConsoleRefusalError(409, 'This form was sent before', advice);
    request.claimedForm = form;
  }
}
