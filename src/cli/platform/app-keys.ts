import { DataSource, type DataSourceOptions } from 'typeorm';
import { AppCredential } from '../../app-credentials/app-credential.entity.js';
import {
  APP_KEY_TABLE,
  AppCredentialsService,
  type AppIdentity,
  type AppKeys,
} from '../../app-credentials/app-credentials.service.js';
import { AuditLog } from '../../audit/audit-log.js';
import type { Clock } from '../../common/clock.js';
import { parseEnvironment, type Environment, type Variables } from '../../config/environment.js';
import { KeyCache } from '../../keys/cache/key-cache.js';
import { KeyStore } from '../../keys/key-store.js';
import { Propagation } from '../../keys/cache/propagation.js';
import { RevocationLease, SYSTEM_CLOCKS } from '../../keys/cache/revocation-lease.js';
import { generateSecret } from '../../crypto/secret.js';
import { createRequestOptions } from '../../database/database-options.js';
import { Database } from '../../database/database.js';
import { Log } from '../../logging/log.js';

/** What a command needs to work on app credentials without a running service. */
export interface AppKeyContext {
  readonly credentials: AppCredentialsService;
  readonly dataSource: DataSource;
  readonly environment: Environment;
}

/**
 * Works on app credentials directly in the database, so that the service does not have to run. Uses the service's own
 * classes, so that the rules are the same.
 * @param variables DATABASE_URL, and any variable that differs from its default
 */
export async function withAppKeys<Result>(
  variables: Variables,
  clock: Clock,
  work: (context: AppKeyContext) => Promise<Result>,
): Promise<Result> {
  // Nothing is signed here, so that any key is valid; and standard output holds only the command's result.
  const environment = parseEnvironment({ ...variables, SECRET_KEY: generateSecret(), LOG_LEVEL: 'silent' });
  const options = { ...createRequestOptions(environment), entities: [AppCredential] } as DataSourceOptions;
  const dataSource = await new DataSource(options).initialize();
  try {
    const repository = dataSource.getRepository(AppCredential);
    const database = new Database(dataSource);
    // Nothing is verified here, so that the cache stays empty; replicas may have cached a key that is revoked here.
    const lease = new RevocationLease({ leaseMs: 0, outageGraceMs: 0 }, SYSTEM_CLOCKS);
    const cache = new KeyCache<AppIdentity>(APP_KEY_TABLE.door, lease, 1);
    const log = new Log(environment);
    const propagation = new Propagation(environment.revocationWaitMs, database, log);
    const audit = new AuditLog(dataSource, database, log);
    const keys: AppKeys = new KeyStore(APP_KEY_TABLE, repository, database, cache, propagation, audit, clock, log);
    const credentials = new AppCredentialsService(repository, keys, audit, clock);
    return await work({ credentials, dataSource, environment });
  } finally {
    await dataSource.destroy();
  }
}
