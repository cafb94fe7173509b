import { isUtf8 } from 'node:buffer';
import { Injectable } from '@nestjs/common';
import type { Request } from 'express';
import { Doors } from '../access/doors.js';
import type { UserPrincipal } from '../access/principals.js';
import { ProblemException, problems } from '../problems/problems.js';
import { refuseField } from '../problems/refused-fields.js';
import { MAX_NAMES, refuseHostileText } from '../http/json-body.js';
import type { ActiveTokenResponse } from './introspect.dto.js';

/** The documented fields of the form, which bounds their length. */
const NAMES = ['token', 'token_type_hint'];

export type Introspection = ActiveTokenResponse | { readonly active: false };

@Injectable()
export class IntrospectionService {
  constructor(private readonly doors: Doors) {}

  /**
   * @param form as it arrived
   * @throws {ProblemException} malformed_request; validation_failed without exactly one token, or with a longer one than
   * documented; unavailable
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

function readToken(body: Buffer | undefined): string {
  const bytes = body ?? Buffer.alloc(0);
  if (!isUtf8(bytes)) throw new ProblemException(problems.malformedRequest);
  const fields = bytes.toString().split('&', MAX_NAMES + 1);
  if (fields.length > MAX_NAMES) throw new ProblemException(problems.malformedRequest);
  const form = new URLSearchParams(fields.join('&'));
  if (form.has('target'))
    refuseField('/target', 'is not part of this request: the credential must be one for this service');
  for (const name of NAMES) for (const value of form.getAll(name)) refuseHostileText(value, `/${name}`);
  const [token, ...more] = form.getAll('token');
  if (token && more.length === 0) return token;
  return refuseField('/token', 'must be sent once, and not be empty');
}
