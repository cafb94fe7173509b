import { Injectable, type CanActivate, type ExecutionContext } from '@nestjs/common';
import type { Request } from 'express';
import { createRefusal, Doors } from '../access/doors.js';
import { ProblemException, problems, REALM } from '../problems/problems.js';

const BASIC = /^basic +(?<credentials>[A-Za-z0-9+/=_-]+)$/i;

/** RFC 6749 §5.2: of the scheme that the header must have. */
const BASIC_CHALLENGE = { 'WWW-Authenticate': `Basic ${REALM}` };

/** The app door, also with HTTP Basic, which OAuth 2.0 clients send (RFC 6749 §2.3.1). */
@Injectable()
export class IntrospectGuard implements CanActivate {
  constructor(private readonly doors: Doors) {}

  async canActivate(context: ExecutionContext): Promise<true> {
    const request = context.switchToHttp().getRequest<Request>();
    const { authorization } = request.headers;
    try {
      if (authorization !== undefined) this.readBasic(request, authorization);
      request.user = await this.doors.authenticate('app', request);
      return true;
    } catch (error) {
      const isRefusal = error instanceof ProblemException && error.problem.status === 401;
      throw isRefusal && authorization !== undefined ? error.withHeaders(BASIC_CHALLENGE) : error;
    }
  }

  private readBasic(request: Request, authorization: string): void {
    if (this.doors.presentsCredential('app', request)) throw new ProblemException(problems.duplicateHeader);
    const { credentials = '' } = BASIC.exec(authorization)?.groups ?? {};
    const decoded = Buffer.from(credentials, 'base64').toString();
    const colon = decoded.indexOf(':');
    const [id, key] = [decoded.slice(0, colon), decoded.slice(colon + 1)].map(decodeFormValue);
    if (colon < 1 || !id || !key) throw createRefusal('app', 'malformed');
    request.headers['x-platform-app-id'] = id;
    request.headers['x-platform-app-key'] = key;
  }
}

/** @returns undefined for what is not form-encoded */
function decodeFormValue(text: string): string | undefined {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch {
    return undefined;
  }
}
