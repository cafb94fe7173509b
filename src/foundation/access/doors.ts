// The four doors: each judges one kind of credential (`AppDoor`, `NodeDoor`, `UserDoor`, `AdminDoor`), a Passport
// strategy reads that credential from a request, and a route declares its doors with a decorator of route-decorators.ts.
// Terms: door, principal, credential, verdict (docs/glossary.md). Invariants: every route declares its doors exactly once;
// all refusals at a door look the same to the caller, and only the log has the reason.

import { Injectable } from '@nestjs/common';
import type { Request } from 'express';
import type { Strategy } from 'passport';
import { HeaderAPIKeyStrategy } from 'passport-headerapikey';
import { ProblemException, type RefusalEvent, problems } from '../problems/problems.js';
import type { RouteScope } from '../common/names.js';
import type { RefusalReason } from '../common/security-events.js';
import { DOORS, type Door, type Principal, type UserPrincipal } from './principals.js';

export type DoorReason<D extends Door> = RefusalReason<(typeof DOORS)[D]['refusalEvent']>;

export function createRefusal<D extends Door>(
  door: D,
  reason: DoorReason<D>,
  fields: Readonly<Record<string, string | undefined>> = {},
): ProblemException {
  const { problem, refusalEvent } = DOORS[door];
  // TypeScript does not relate event and reason within a union, but the signature of this function does.
  const refusal = { event: refusalEvent, reason, fields: { door, ...fields } } as RefusalEvent;
  return new ProblemException(problem, { refusal });
}

/** What a call needs of a credential that is otherwise valid. */
export interface RouteDemand {
  /** The service at which an app key is presented. Undefined: this one; null: its forwarder did not name itself. */
  readonly target?: string | null;
  /** The scope that the call needs at that service; null when it names none, so that a restricted key is refused. */
  readonly appScope?: string | null | undefined;
  /** Whether a node acts on its own key, which its targets do not restrict. */
  readonly isOwnKey?: boolean;
  /** Whether an app key is verified in the database, also while its verdict is cached. */
  readonly isFresh?: boolean;
  /** What the route demands of an operator. */
  readonly operatorScope?: RouteScope | undefined;
}

/** Judges tokens that services got on behalf of users, which the user door refuses. */
interface DelegatedDoor {
  isDelegated(token: string): boolean;
  verifyDelegated(token: string, audience: string, isFresh: boolean): Promise<UserPrincipal>;
}

/** The Passport strategies of one application. Passport's global table has one slot per name for the whole process. */
@Injectable()
export class Doors {
  private readonly strategies = new Map<Door, Strategy>();
  private delegatedDoor: DelegatedDoor | undefined;

  install(door: Door, strategy: Strategy): void {
    this.strategies.set(door, strategy);
  }

  installDelegation(door: DelegatedDoor): void {
    this.delegatedDoor = door;
  }

  /** @returns the bearer token if it has the header of a token that a service got on behalf of a user */
  readDelegated(request: Request): string | undefined {
    const token = readBearer(request);
    return token !== undefined && this.delegatedDoor?.isDelegated(token) ? token : undefined;
  }

  /**
   * @param token of {@link readDelegated}
   * @param audience the service that presents the token
   * @throws {ProblemException} invalid_access_token
   */
  async authenticateDelegated(request: Request, token: string, audience: string | undefined): Promise<UserPrincipal> {
    if (!this.delegatedDoor || audience === undefined) throw createRefusal('user', 'other_audience');
    return this.delegatedDoor.verifyDelegated(token, audience, isFreshVerdictWanted(request));
  }

  hasCredential(door: Door, request: Request): boolean {
    return DOORS[door].headers.some((name: string) => request.headers[name] !== undefined);
  }

  /**
   * Runs the door's strategy in place of `passport.authenticate`, which keeps requests alive until the next full
   * collection (docs/decisions/0035).
   * @throws {ProblemException} the door's 401; any other error when the strategy could not decide
   */
  authenticate(door: Door, request: Request, asked: RouteDemand = {}): Promise<Principal> {
    return new Promise((resolve, reject) => {
      const strategy = this.strategies.get(door);
      if (!strategy) throw new Error(`No strategy is installed for the ${door} door`);
      const refuse = (): void => reject(createNotAcceptedProblem(door, request));
      const accept = (principal?: Principal): void => (principal ? resolve(principal) : refuse());
      // Each request gets an object of its own for its verdict: on a shared object, one request could get the principal
      // of another.
      const ownStrategy = Object.create(strategy) as RequestStrategy;
      ownStrategy.success = accept;
      ownStrategy.fail = refuse;
      ownStrategy.pass = refuse;
      ownStrategy.error = reject;
      ownStrategy.authenticate(request, asked);
    });
  }
}

/** The methods by which a strategy reports its verdict about one request (the package passport-strategy). */
interface RequestStrategy {
  success: (principal?: Principal) => void;
  fail: () => void;
  pass: () => void;
  error: (error: Error) => void;
  authenticate(request: Request, asked: RouteDemand): void;
}

function createNotAcceptedProblem(door: Door, request: Request): ProblemException {
  const isTokenMissing = door === 'user' && !/^bearer /i.test(request.headers.authorization ?? '');
  if (!isTokenMissing) return createRefusal(door, 'not_accepted');
  // RFC 6750 §3.1: when no token was sent, the challenge has no error code.
  const refusal: RefusalEvent = { event: 'user.token.refused', reason: 'no_credential', fields: { door } };
  return new ProblemException(problems.missingAccessToken, { refusal });
}

/**
 * Reads the token of RFC 6750 §2.1. Blanks are spaces and tabs (RFC 9110 §5.6.3): `\s` would also skip a no-break
 * space.
 * @returns undefined without a token, and for any other scheme
 */
export function readBearer({ headers }: Pick<Request, 'headers'>): string | undefined {
  return /^bearer [ \t]*([^ \t].*)$/i.exec(headers.authorization ?? '')?.[1];
}

/** Whether the caller asks for a verdict from PostgreSQL that is newer than the request (RFC 9111 §5.2.1.4). */
export function isFreshVerdictWanted({ headers }: Pick<Request, 'headers'>): boolean {
  const control = headers['cache-control'];
  return control !== undefined && /\bno-cache\b/i.test(control);
}

type Done = (error: Error | null, principal?: object, info?: object) => void;

/**
 * The base of every door with a key in a header. passport-headerapikey passes the request after the callback and Nest
 * expects the callback last, so this class reorders them.
 */
export class HeaderKeyStrategy extends HeaderAPIKeyStrategy {
  /** Safe to keep in a field, because `Doors` authenticates each request with an object of its own. */
  private asked: RouteDemand = {};

  constructor(header: string, verify: (request: Request, key: string, asked: RouteDemand, done: Done) => void) {
    super({ header, prefix: '' }, true, function (this: HeaderKeyStrategy, key: string, done: Done, request?: Request) {
      verify(request as Request, key, this.asked, done);
    });
  }

  override authenticate(request: Request, asked: RouteDemand = {}): void {
    this.asked = asked;
    super.authenticate(request);
  }
}
