import { Injectable } from '@nestjs/common';
import { toErrorFields } from '../logging/log-line.js';
import { Log } from '../logging/log.js';
import { TotpVault } from '../second-factors/totp-vault.js';

/** Encrypts with the present SECRET_KEY what replicas with the former one have written since the start. */
@Injectable()
export class TotpSecretsJob {
  constructor(
    private readonly vault: TotpVault,
    private readonly log: Log,
  ) {}

  async run(): Promise<void> {
    try {
      await this.vault.reencrypt();
    } catch (error) {
      this.log.warn('totp_secrets_job_failed', { error: toErrorFields(error) });
    }
  }
}
