import { Injectable } from '@nestjs/common';
import type { Request } from 'express';
import type { Strategy } from 'passport';
import { ProblemException, type RefusalEvent } from '../common/problem.exception.js';
import { problems, type Problem } from '../common/problems.js';
import type { SecurityEvent } from '../common/security-event.js';
import type { Door, Principal } from './principals.js';

interface DoorDescription {
  /** A request that carries any of these headers knocks at this door. */
  readonly headers: readonly string[];
  readonly problem: Problem;
  readonly refusalEvent: SecurityEvent;
}

export const DOORS: Readonly<Record<Door, DoorDescription>> = {
  user: { headers: ['authorization'], problem: problems.invalidAccessToken, refusalEvent: 'user.token.refused' },
  app: {
    headers: ['x-platform-app-id', 'x-platform-app-key'],
    problem: problems.invalidAppCredentials,
    refusalEvent: 'app.validation.failed',
  },
  node: { headers: ['x-api-key'], problem: problems.invalidNodeCredentials, refusalEvent: 'node.validation.failed' },
  admin: { headers: ['x-admin-key'], problem: problems.invalidAdminKey, refusalEvent: 'admin.key.refused' },
};

/** The same answer for every way of being refused at a door; the reason is for the log alone. */
export function createRefusal(
  door: Door,
  reason: string,
  fields: Readonly<Record<string, string | undefined>> = {},
): ProblemException {
  const { problem, refusalEvent } = DOORS[door];
  return new ProblemException(problem, { refusal: { event: refusalEvent, reason, fields: { door, ...fields } } });
}

/**
 * The Passport strategy of each door. They are kept here and not in Passport's global table, so that several
 * applications can live in one process.
 */
@Injectable()
export class Doors {
  private readonly strategies = new Map<Door, Strategy>();

  install(door: Door, strategy: Strategy): void {
    this.strategies.set(door, strategy);
  }

  presentsCredential(door: Door, request: Request): boolean {
    return DOORS[door].headers.some((name) => request.headers[name] !== undefined);
  }

  /**
   * Lets the door's strategy look at the request, as `passport.authenticate` would. That one puts function literals into
   * properties, and with them requests were kept alive until the next full collection (docs/performance.md).
   * @returns whom the strategy recognised
   * @throws {ProblemException} the door's 401; anything else that the strategy could not look up
   */
  open(door: Door, request: Request): Promise<Principal> {
    return new Promise((resolve, reject) => {
      const strategy = this.strategies.get(door);
      if (!strategy) throw new Error(`No strategy is installed for the ${door} door`);
      const refuse = (): void => reject(notAccepted(door, request));
      const letIn = (principal?: Principal): void => (principal ? resolve(principal) : refuse());
      // The verdicts are written onto the strategy: each request needs one of its own, or the principal of one would be
      // handed to another.
      const ofThisRequest = Object.create(strategy) as Asked;
      ofThisRequest.success = letIn;
      ofThisRequest.fail = refuse;
      ofThisRequest.pass = refuse;
      ofThisRequest.error = reject;
      ofThisRequest.authenticate(request, {});
    });
  }
}

/** A strategy for one request, with the actions by which each says what it found (the package passport-strategy). */
interface Asked {
  success: (principal?: Principal) => void;
  fail: () => void;
  pass: () => void;
  error: (error: Error) => void;
  authenticate(request: Request, options: object): void;
}

/** The strategy found no credential, or one that it does not accept. */
function notAccepted(door: Door, request: Request): ProblemException {
  const isWithoutToken = door === 'user' && !/^bearer /i.test(request.headers.authorization ?? '');
  return isWithoutToken ? missingAccessToken() : createRefusal(door, 'not_accepted');
}

/** RFC 6750 §3.1: without any token the challenge carries no error. */
function missingAccessToken(): ProblemException {
  const refusal: RefusalEvent = { event: DOORS.user.refusalEvent, reason: 'no_credential', fields: { door: 'user' } };
  return new ProblemException(problems.missingAccessToken, { refusal });
}
