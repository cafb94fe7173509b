import { TypeOrmModule } from '@nestjs/typeorm';
import { DataSource } from 'typeorm';
import { COMMAND_LINE } from '../../access/actor.js';
import { AuditLog } from '../../audit/audit-log.js';
import { AuditModule } from '../../audit/audit.module.js';
import { readVariables } from '../../config/environment.js';
import { DatabaseClock } from '../../database/database-clock.js';
import { KeysModule } from '../../keys/keys.module.js';
import { Propagation } from '../../keys/cache/propagation.js';
import { KeyOperationError, KeyOperations } from '../../signing-keys/key-operations.js';
import { SigningKey } from '../../signing-keys/signing-key.entity.js';
import { withServices } from './command-context.js';
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
  const operations = {
    provide: KeyOperations,
    inject: [DataSource, AuditLog, Propagation, DatabaseClock],
    useFactory: (...parts: ConstructorParameters<typeof KeyOperations>) => new KeyOperations(...parts),
  };
  const rooms = { imports: [AuditModule, KeysModule, TypeOrmModule.forFeature([SigningKey])], providers: [operations] };
  try {
    return await withServices(readVariables(), rooms, (context) => work(context.get(KeyOperations)));
  } catch (error) {
    throw error instanceof KeyOperationError ? new CommandFailedError(error.message, 'not_possible_now') : error;
  }
}
