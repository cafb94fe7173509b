import { Inject, Injectable } from '@nestjs/common';
import { PassportStrategy } from '@nestjs/passport';
import type { Request } from 'express';
import { Doors, refusal } from '../access/doors.js';
import { HeaderKeyStrategy } from '../access/header-key.strategy.js';
import type { AppPrincipal } from '../access/principals.js';
import { APP_KEYS, type AppKeys } from './app-credentials.service.js';

/** The app door: `X-Platform-App-Id` and `X-Platform-App-Key`. */
@Injectable()
export class AppStrategy extends PassportStrategy(HeaderKeyStrategy, 'app') {
  constructor(
    doors: Doors,
    @Inject(APP_KEYS) private readonly keys: AppKeys,
  ) {
    super('X-Platform-App-Key');
    doors.install('app', this);
  }

  async validate(request: Request, key: string): Promise<AppPrincipal> {
    const sentId = request.headers['x-platform-app-id'];
    if (typeof sentId !== 'string') throw refusal('app', 'no_id');
    const appId = sentId.toLowerCase();
    const verdict = await this.keys.verify(appId, key);
    const { caller, target } = verdict.identity ?? {};
    if (!verdict.valid)
      throw refusal(
        'app',
        verdict.reason,
        verdict.identity && { app_id: appId, calling_service: caller, called_service: target },
      );
    const named = (request.body as { target?: unknown } | undefined)?.target;
    // Presented to another service than its own the key is good, and the call is refused all the same.
    if (named === undefined) this.keys.accepted(appId, null);
    else if (named === verdict.identity.target) this.keys.accepted(appId, verdict.identity.target);
    return { door: 'app', appId, caller: verdict.identity.caller, target: verdict.identity.target };
  }
}
