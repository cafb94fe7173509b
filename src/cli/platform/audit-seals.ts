import { Client } from 'pg';
import { AuditVerifier, type Verification } from '../../audit/audit-verifier.js';
import { formatCheckpoint } from '../../audit/checkpoint.js';
import type { Query } from '../../audit/seal-chain.js';
import { SealKey, type SealContent, type StoredSeal } from '../../audit/seal.js';
import { LAST_SEAL } from '../../audit/seal-statements.js';
import { BEGIN } from '../../audit/verify-statements.js';
import { auditSealSecretOf } from '../../config/audit-variables.js';
import { databaseUrlOf, readVariables } from '../../config/environment.js';
import { CommandFailed } from '../terminal.js';

/** Holds the whole audit log against its seals. Only reads. */
export async function verifyAudit(checkpoint: string | undefined): Promise<Verification> {
  return onDatabase((query, key) => new AuditVerifier(query, key).verify(checkpoint));
}

/** @returns the line that stands for everything sealed so far */
export async function auditCheckpoint(): Promise<string> {
  return onDatabase(async (query, key) => {
    const [seal] = await query<StoredSeal>(LAST_SEAL);
    if (!seal) throw new CommandFailed('Nothing is sealed yet. Start the service: it seals every few seconds.');
    if (!key.hasSealed(seal)) throw new CommandFailed('The last seal does not hold. Run: platform-auth audit verify');
    const { number, at } = JSON.parse(seal.content) as SealContent;
    return formatCheckpoint({ number, at, mac: seal.mac });
  });
}

async function onDatabase<Result>(work: (query: Query, key: SealKey) => Promise<Result>): Promise<Result> {
  const variables = readVariables();
  const client = new Client({ connectionString: databaseUrlOf(variables), connectionTimeoutMillis: 5_000 });
  const key = new SealKey(auditSealSecretOf(variables));
  client.on('error', () => undefined);
  await client.connect();
  try {
    await client.query(BEGIN);
    const query: Query = async <Row extends object>(text: string, values: unknown[] = []) =>
      (await client.query<Row>(text, values)).rows;
    return await work(query, key);
  } finally {
    await client.end();
  }
}
