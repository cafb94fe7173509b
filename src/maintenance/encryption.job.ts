import { Injectable } from '@nestjs/common';
import { toErrorFields } from '../logging/log-line.js';
import { Log } from '../logging/log.js';
import { KeyRotation } from '../signing-keys/key-rotation.js';

/** Replaces signing keys by age, encrypts them with the present SECRET_KEY, and erases private keys that no token needs. */
@Injectable()
export class SigningKeysJob {
  constructor(
    private readonly rotation: KeyRotation,
    private readonly log: Log,
  ) {}

  async run(): Promise<void> {
    try {
      await this.rotation.reencrypt();
      await this.rotation.run();
    } catch (error) {
      this.log.warn('signing_keys_job_failed', { error: toErrorFields(error) });
    }
  }
}
