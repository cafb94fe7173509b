import { isUtf8 } from 'node:buffer';
import { Injectable } from '@nestjs/common';
import type { Request } from 'express';
import { Doors } from '../access/doors.js';
import type { UserPrincipal } from '../access/principals.js';
import { ProblemException } from '../problems/problem.exception.js';
import { problems } from '../problems/problems.js';
import { MAX_NAMES } from '../http/json-body.js';
import type { ActiveTokenResponse, InactiveTokenResponse } from './introspect.dto.js';

export type Introspection = ActiveTokenResponse | InactiveTokenResponse;

@Injectable()
export class IntrospectionService {
  constructor(private readonly doors: Doors) {}

  /**
   * @param form as it arrived
   * @throws {ProblemException} malformed_request; validation_failed without exactly one token; unavailable
   */
  async introspect(form: Buffer | undefined): Promise<Introspection> {
    const principal = await this.authenticate(readToken(form));
    if (!principal) return { active: false };
    const { userId, sessionId, email, amr, claims } = principal;
    const { exp, iat, iss, jti } = claims;
    const token = { exp, iat, iss, jti, token_type: 'Bearer' as const };
    return { active: true, sub: userId, sid: sessionId, ...token, username: email, amr: [...amr] };
  }

  /** A refusal here is an answer to the client, not an attempt at the user door: it is not logged as one. */
  private async authenticate(token: string): Promise<UserPrincipal | undefined> {
    if (/\s/.test(token)) return undefined;
    const presented = { headers: { authorization: `Bearer ${token}` } } as Request;
    try {
      const principal = await this.doors.authenticate('user', presented);
      return principal.door === 'user' ? principal : undefined;
    } catch (error) {
      if (error instanceof ProblemException && error.problem.status === 401) return undefined;
      throw error;
    }
  }
}

function readToken(form: Buffer | undefined): string {
  const bytes = form ?? Buffer.alloc(0);
  if (!isUtf8(bytes)) throw new ProblemException(problems.malformedRequest);
  const fields = bytes.toString().split('&', MAX_NAMES + 1);
  if (fields.length > MAX_NAMES) throw new ProblemException(problems.malformedRequest);
  const [token, ...more] = new URLSearchParams(fields.join('&')).getAll('token');
  if (token && more.length === 0) return token;
  const errors = [{ pointer: '/token', detail: 'must be sent once, and not be empty' }];
  throw new ProblemException(problems.validationFailed, { errors });
}
