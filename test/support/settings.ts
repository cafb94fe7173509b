import type { Variables } from '../../src/foundation/config/environment.js';
import type { FixedSettings } from '../../src/foundation/config/limits.js';
import { PATIENT_SETTINGS, replaceSettings } from '../../tools/replace-settings.js';

export const ADMIN_KEY = 'test-admin-Kq3vYt8sLw2nXz5rBd7fGh1jMp4cQe6u';
export const SECRET_KEY = 'test-signing-Zr9tWx4yVb6nMk2jHg8fDs3aQp5oLi7u';
/** The other secret than the one that dependents hold. */
export const MASTER_KEY = 'test-deriving-Lk5jHg2fDs8aPo1iUy4tRe7wQz9xCv3b';
export const PASSWORD = 'a perfectly fine passphrase';

/** The fixed settings of a service in tests. */
export const SETTINGS: Partial<FixedSettings> = {
  // All test users share one address. Tests of throttles and outages set their own values.
  ...PATIENT_SETTINGS,
  healthTimeoutMs: 20_000,
  // Few, because a thread is slow to start.
  hashThreads: 1,
  // Normal priority, because beside other tests a thread of low priority would hardly ever run.
  hashNiceness: 0,
  // Few, because a cache takes the memory of all its keys when it is made: a third of the CPU of a start.
  maxCachedKeys: 1_000,
  // Rarely, because tests seal by hand.
  auditSealIntervalSeconds: 3_600,
};

/** @returns the variable that gives a service in another process these fixed settings, and those of all tests */
export function withSettings(settings: Partial<FixedSettings>): Variables {
  return { NODE_OPTIONS: replaceSettings({ ...SETTINGS, ...settings }) };
}

/** The environment of a service in tests. This module does not import the application, so tests of processes load fast. */
export const VARIABLES: Variables = {
  ...withSettings({}),
  NODE_ENV: 'test',
  SECRET_KEY,
  MASTER_KEY,
  ADMIN_API_KEY: ADMIN_KEY,
  BCRYPT_COST: '4',
  // Longer than the machine stalls. Tests advance their clock beyond it.
  REFRESH_GRACE_SECONDS: '60',
  // Short, because every revocation waits for the lease to expire; half of it costs each application 16 ms of CPU a second.
  REVOCATION_LEASE_MS: '200',
  LOG_LEVEL: 'silent',
  LOGIN_LIMIT_PER_ACCOUNT_AND_ADDRESS: '1000000/60',
  LOGIN_LIMIT_PER_ACCOUNT: '1000000/60',
  LOGIN_LIMIT_PER_ADDRESS: '1000000/60',
  REGISTRATION_LIMIT_PER_ADDRESS: '1000000/60',
  REFRESH_LIMIT_PER_ADDRESS: '1000000/60',
};

/**
 * For an application that verifies no key it has cached: it polls nothing, and a revocation waits for no lease. Its
 * replicas inherit this.
 */
export const UNLEASED: Variables = { REVOCATION_LEASE_MS: '0' };
