/**
 * How software that speaks OAuth 2.0 calls this service: the app door, also with HTTP Basic, and forms.
 */
import { isUtf8 } from 'node:buffer';
import { Injectable, type CanActivate, type ExecutionContext } from '@nestjs/common';
import type { Request } from 'express';
import { AppDoor } from '../../domain/app-credentials/app.door.js';
import { toActor } from '../../foundation/access/actor.js';
import { createRefusal, Doors, isFreshVerdictWanted } from '../../foundation/access/doors.js';
import type { AppPrincipal } from '../../foundation/access/principals.js';
import { Environment } from '../../foundation/config/environment.js';
import { MAX_NAMES } from '../../foundation/http/request-guards.js';
import { refuseHostileText } from '../../foundation/http/validation.js';
import { ProblemException, problems, REALM, refuseField } from '../../foundation/problems/problems.js';

const BASIC = /^basic +(?<credentials>[A-Za-z0-9+/=_-]+)$/i;

/** RFC 6749 §5.2: the challenge names the scheme that the client used. */
const BASIC_CHALLENGE = { 'WWW-Authenticate': `Basic ${REALM}` };

/** The app door, also with HTTP Basic, which OAuth 2.0 clients send (RFC 6749 §2.3.1). */
@Injectable()
export class OAuthClientGuard implements CanActivate {
  constructor(
    private readonly doors: Doors,
    private readonly door: AppDoor,
    private readonly environment: Environment,
  ) {}

  async canActivate(context: ExecutionContext): Promise<true> {
    const request = context.switchToHttp().getRequest<Request>();
    const { authorization } = request.headers;
    request.user = await (authorization === undefined
      ? this.doors.authenticate('app', request)
      : this.authenticateWithBasic(request, authorization));
    return true;
  }

  private async authenticateWithBasic(request: Request, authorization: string): Promise<AppPrincipal> {
    if (this.doors.hasCredential('app', request)) throw new ProblemException(problems.duplicateHeader);
    const target = this.environment.serviceName;
    const isFresh = isFreshVerdictWanted(request);
    try {
      const credential = parseBasic(authorization);
      return await this.door.verifyApp({ ...credential, target, isFresh, getActor: () => toActor(request) });
    } catch (error) {
      const isRefusal = error instanceof ProblemException && error.problem.status === 401;
      throw isRefusal ? error.withHeaders(BASIC_CHALLENGE) : error;
    }
  }
}

function parseBasic(authorization: string): { id: string; key: string } {
  const { credentials = '' } = BASIC.exec(authorization)?.groups ?? {};
  const decoded = Buffer.from(credentials, 'base64').toString();
  const colon = decoded.indexOf(':');
  const [id, key] = [decoded.slice(0, colon), decoded.slice(colon + 1)].map(decodeFormValue);
  if (colon < 1 || !id || !key) throw createRefusal('app', 'malformed');
  return { id, key };
}

function decodeFormValue(text: string): string | undefined {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch {
    return undefined;
  }
}

/** @param names fields whose text is checked @throws {ProblemException} malformed_request; validation_failed */
export function readForm(body: Buffer | undefined, names: readonly string[]): URLSearchParams {
  const bytes = body ?? Buffer.alloc(0);
  if (!isUtf8(bytes)) throw new ProblemException(problems.malformedRequest);
  const fields = bytes.toString().split('&', MAX_NAMES + 1);
  if (fields.length > MAX_NAMES) throw new ProblemException(problems.malformedRequest);
  const form = new URLSearchParams(fields.join('&'));
  if (form.has('target'))
    refuseField('/target', 'is not part of this request: the credential must be one for this service');
  for (const name of names) for (const value of form.getAll(name)) refuseHostileText(value, `/${name}`);
  return form;
}
