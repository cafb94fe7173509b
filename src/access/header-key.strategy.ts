import type { Request } from 'express';
import { HeaderAPIKeyStrategy } from 'passport-headerapikey';

type Done = (error: Error | null, principal?: object, info?: object) => void;

/**
 * passport-headerapikey passes the request after the callback; Nest expects the callback last. This class swaps them,
 * and is the base of every door with a key in a header.
 */
export class HeaderKeyStrategy extends HeaderAPIKeyStrategy {
  constructor(header: string, verify: (request: Request, key: string, done: Done) => void) {
    super({ header, prefix: '' }, true, (key: string, done: Done, request?: Request) => {
      verify(request as Request, key, done);
    });
  }
}
