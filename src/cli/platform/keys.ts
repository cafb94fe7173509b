import { DataSource, type DataSourceOptions } from 'typeorm';
import { COMMAND_LINE } from '../../access/actor.js';
import { AuditLog } from '../../audit/audit-log.js';
import { parseEnvironment, readVariables } from '../../config/environment.js';
import { generateSecret } from '../../crypto/secret.js';
import { DatabaseClock } from '../../database/database-clock.js';
import { createRequestOptions } from '../../database/database-options.js';
import { Database } from '../../database/database.js';
import { Propagation } from '../../keys/cache/propagation.js';
import { Log } from '../../logging/log.js';
import { KeyOperationError, KeyOperations } from '../../signing-keys/key-operations.js';
import { SigningKey } from '../../signing-keys/signing-key.entity.js';
import { CommandFailedError } from '../terminal.js';

export interface KeyReport {
  readonly kid: string;
  readonly state: string;
  readonly created_at: string;
  readonly activated_at: string | null;
  readonly retired_at: string | null;
  readonly revoked_at: string | null;
}

export async function listKeys(): Promise<KeyReport[]> {
  return withKeys((keys) => list(keys));
}

/** @returns the keys after the rotation */
export async function rotateKeys(): Promise<KeyReport[]> {
  return withKeys(async (keys) => {
    await keys.rotate(COMMAND_LINE);
    return list(keys);
  });
}

export async function retireKey(kid: string): Promise<KeyReport[]> {
  return withKeys(async (keys) => {
    await keys.retire(kid, COMMAND_LINE);
    return list(keys);
  });
}

export async function revokeKey(kid: string): Promise<KeyReport[]> {
  return withKeys(async (keys) => {
    await keys.revoke(kid, COMMAND_LINE);
    return list(keys);
  });
}

async function list(keys: KeyOperations): Promise<KeyReport[]> {
  return (await keys.list()).map(({ kid, state, createdAt, activatedAt, retiredAt, revokedAt }) => ({
    kid,
    state,
    created_at: createdAt.toISOString(),
    activated_at: activatedAt?.toISOString() ?? null,
    retired_at: retiredAt?.toISOString() ?? null,
    revoked_at: revokedAt?.toISOString() ?? null,
  }));
}

async function withKeys<Result>(work: (keys: KeyOperations) => Promise<Result>): Promise<Result> {
  // Nothing is signed or decrypted here, so that any secret is valid; and standard output holds only the result.
  const environment = parseEnvironment({ ...readVariables(), SECRET_KEY: generateSecret(), LOG_LEVEL: 'silent' });
  const options = { ...createRequestOptions(environment), entities: [SigningKey] } as DataSourceOptions;
  const dataSource = await new DataSource(options).initialize();
  try {
    const database = new Database(dataSource);
    const log = new Log(environment);
    const audit = new AuditLog(dataSource, database, log);
    const propagation = new Propagation(environment.revocationWaitMs, database, log);
    return await work(new KeyOperations(dataSource, audit, propagation, new DatabaseClock(dataSource)));
  } catch (error) {
    throw error instanceof KeyOperationError ? new CommandFailedError(error.message) : error;
  } finally {
    await dataSource.destroy();
  }
}
