import { Injectable } from '@nestjs/common';
import { LockNotAcquiredError } from '../database/database.js';
import { toErrorFields } from '../logging/log-line.js';
import { Log } from '../logging/log.js';
import { TotpVault } from '../second-factors/totp-vault.js';
import { SigningKeyRotation } from '../signing-keys/signing-key-rotation.js';

/**
 * Encrypts TOTP secrets and signing keys with the present SECRET_KEY. Replaces signing keys by age, and erases private keys
 * that no token needs.
 */
@Injectable()
export class KeyMaterialJob {
  constructor(
    private readonly totpVault: TotpVault,
    private readonly rotation: SigningKeyRotation,
    private readonly log: Log,
  ) {}

  async run(): Promise<void> {
    await this.attempt('totp_secrets_job_failed', () => this.totpVault.reencrypt());
    await this.attempt('signing_keys_job_failed', async () => {
      await this.rotation.reencryptKeys();
      await this.rotation.advanceKeys();
    });
  }

  private async attempt(failure: string, work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      if (!(error instanceof LockNotAcquiredError)) this.log.warn(failure, { error: toErrorFields(error) });
    }
  }
}
