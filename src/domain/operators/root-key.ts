import { Injectable, type OnApplicationBootstrap } from '@nestjs/common';
import { Environment } from '../../foundation/config/environment.js';
import { computeMac, deriveKey } from '../../foundation/crypto/secret.js';
import { Database } from '../../foundation/database/database.js';
import { Log, toErrorFields } from '../../foundation/logging/log.js';

const RECORD = {
  name: 'root_keys_record',
  text: 'INSERT INTO root_keys (marker) VALUES ($1) ON CONFLICT (marker) DO NOTHING',
};
const READ = { name: 'root_keys_read', text: 'SELECT first_seen_at AS "firstSeenAt" FROM root_keys WHERE marker = $1' };

const MARKER = 'platform-auth root key marker v1';

/**
 * Remembers since when the root key (ADMIN_API_KEY) has been in use, so that its age is visible (ASVS 13.3.4). The marker
 * is derived from the key, and neither the key nor its digest can be computed from it.
 */
@Injectable()
export class RootKey implements OnApplicationBootstrap {
  private readonly marker: Buffer | undefined;

  constructor(
    { adminApiKey }: Environment,
    private readonly database: Database,
    private readonly log: Log,
  ) {
    this.marker = adminApiKey === undefined ? undefined : computeMac(deriveKey(adminApiKey, MARKER), MARKER);
  }

  /** A database that cannot be written to delays nothing: the next start records the key. */
  async onApplicationBootstrap(): Promise<void> {
    if (!this.marker) return;
    await this.database
      .rows(RECORD, [this.marker])
      .catch((error: unknown) => this.log.warn('root_key_not_recorded', { error: toErrorFields(error) }));
  }

  /** @returns undefined without a root key */
  async readFirstSeen(): Promise<Date | undefined> {
    return this.marker && (await this.database.row<{ firstSeenAt: Date }>(READ, [this.marker]))?.firstSeenAt;
  }
}
