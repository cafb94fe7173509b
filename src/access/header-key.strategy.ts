import type { Request } from 'express';
import { HeaderAPIKeyStrategy } from 'passport-headerapikey';

type Done = (error: Error | null, principal?: object, info?: object) => void;

/**
 * passport-headerapikey hands the request over after the callback; Nest expects the callback last. This class
 * turns them round, and is what every door with a key in a header is built on.
 */
export class HeaderKeyStrategy extends HeaderAPIKeyStrategy {
  constructor(header: string, verify: (request: Request, key: string, done: Done) => void) {
    super({ header, prefix: '' }, true, (key: string, done: Done, request?: Request) => {
      verify(request as Request, key, done);
    });
  }
}
