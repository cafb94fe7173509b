import type { Variables } from '../../src/config/environment.js';

export const ADMIN_KEY = 'test-admin-Kq3vYt8sLw2nXz5rBd7fGh1jMp4cQe6u';
export const SECRET_KEY = 'test-signing-Zr9tWx4yVb6nMk2jHg8fDs3aQp5oLi7u';
export const PASSWORD = 'a perfectly fine passphrase';

/** The environment of a service in tests. Without an import of the application: cheap for tests of processes. */
export const VARIABLES: Variables = {
  NODE_ENV: 'test',
  SECRET_KEY,
  ADMIN_API_KEY: ADMIN_KEY,
  BCRYPT_COST: '4',
  // On a busy machine these would turn verdicts into 503. The tests of outages set their own.
  DATABASE_CONNECT_TIMEOUT_MS: '20000',
  DATABASE_STATEMENT_TIMEOUT_MS: '20000',
  HEALTH_TIMEOUT_MS: '20000',
  HASH_THREADS: '2',
  // Longer than the machine stalls. Tests advance their clock beyond it.
  REFRESH_GRACE_SECONDS: '60',
  // Every revocation waits for the lease to expire.
  REVOCATION_LEASE_MS: '100',
  // Tests seal by hand.
  AUDIT_SEAL_INTERVAL_SECONDS: '3600',
  LOG_LEVEL: 'silent',
  // All test users share one address. The throttling specs set their own limits.
  LOGIN_LIMIT_PER_ACCOUNT_AND_ADDRESS: '1000000/60',
  LOGIN_LIMIT_PER_ACCOUNT: '1000000/60',
  LOGIN_LIMIT_PER_ADDRESS: '1000000/60',
  SECOND_FACTOR_LIMIT_PER_ACCOUNT: '1000000/60',
  SECOND_FACTOR_LIMIT_PER_ADDRESS: '1000000/60',
  HASHING_BUSY_LIMIT_PER_ADDRESS: '1000000/60',
  ADMIN_KEY_LIMIT_PER_ADDRESS: '1000000/60',
  REGISTRATION_LIMIT_PER_ADDRESS: '1000000/60',
  REFRESH_LIMIT_PER_ADDRESS: '1000000/60',
  MAIL_LIMIT_PER_ADDRESS: '1000000/60',
  MAIL_LIMIT_PER_ACCOUNT: '1000000/60',
  LINK_LIMIT_PER_ADDRESS: '1000000/60',
};
