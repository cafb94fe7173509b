import type { EntityManager } from 'typeorm';

/** Advisory locks of the whole platform: arbitrary distinct numbers, the same in every process. */
export const LOCKS = {
  migrations: 7_701_001,
  purge: 7_701_002,
  init: 7_701_003,
  auditPartitions: 7_701_004,
  auditSeals: 7_701_005,
  signingKeys: 7_701_006,
  totpSecrets: 7_701_007,
} as const;

/** Takes an advisory lock until the transaction ends. @returns false, without waiting, while another transaction holds it */
export async function tryLock(transaction: EntityManager, lock: number): Promise<boolean> {
  const [row] = await transaction.query<{ mine: boolean }[]>('SELECT pg_try_advisory_xact_lock($1) AS mine', [lock]);
  return row?.mine === true;
}
