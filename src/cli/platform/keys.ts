import { TypeOrmModule } from '@nestjs/typeorm';
import { COMMAND_LINE } from '../../access/actor.js';
import { AuditModule } from '../../audit/audit.module.js';
import { readVariables } from '../../config/environment.js';
import { RevocationModule } from '../../revocation/revocation.module.js';
import { SigningKeyOperationError, SigningKeyOperations } from '../../signing-keys/signing-key-operations.js';
import { SigningKey } from '../../signing-keys/signing-key.js';
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
  return withKeys(() => Promise.resolve());
}

/** @returns the keys after the rotation */
export async function rotateKeys(): Promise<KeyReport[]> {
  return withKeys((keys) => keys.rotateActiveKey(COMMAND_LINE));
}

export async function retireKey(kid: string): Promise<KeyReport[]> {
  return withKeys((keys) => keys.retireKey(kid, COMMAND_LINE));
}

export async function revokeKey(kid: string): Promise<KeyReport[]> {
  return withKeys((keys) => keys.revokeKey(kid, COMMAND_LINE));
}

/** @returns all keys, after the act */
async function withKeys(act: (keys: SigningKeyOperations) => Promise<void>): Promise<KeyReport[]> {
  const imports = [AuditModule, RevocationModule, TypeOrmModule.forFeature([SigningKey])];
  try {
    return await withServices(readVariables(), { imports, providers: [SigningKeyOperations] }, async (context) => {
      const keys = context.get(SigningKeyOperations);
      await act(keys);
      return (await keys.listKeys()).map(toReport);
    });
  } catch (error) {
    throw error instanceof SigningKeyOperationError ? new CommandFailedError(error.message, 'not_possible_now') : error;
  }
}

function toReport({ kid, state, createdAt, activatedAt, retiredAt, revokedAt }: SigningKey): KeyReport {
  return {
    kid,
    state,
    created_at: createdAt.toISOString(),
    activated_at: activatedAt?.toISOString() ?? null,
    retired_at: retiredAt?.toISOString() ?? null,
    revoked_at: revokedAt?.toISOString() ?? null,
  };
}
