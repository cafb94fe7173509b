import { readFileSync } from 'node:fs';
import { Client } from 'pg';
import { AuditVerifier, type Verification } from '../../audit/audit-verifier.js';
import { formatCheckpoint } from '../../audit/checkpoint.js';
import type { Query } from '../../audit/seal-chain.js';
import { SealKey, type SealContent, type StoredSeal } from '../../audit/seal.js';
import { LAST_SEAL } from '../../audit/seal-statements.js';
import { BEGIN } from '../../audit/verify-statements.js';
import { readVariables } from '../../config/environment.js';
import { parseAuditSealSecret, parseDatabaseUrl } from '../../config/single-variables.js';
import { CommandFailed } from '../terminal.js';
import { messageOf } from './platform-files.js';

export interface VerifyRequest {
  readonly checkpoint?: string | undefined;
  /** The path of a file with one former key a line. */
  readonly oldKeys?: string | undefined;
}

/** Holds the whole audit log against its seals. Only reads. */
export async function verifyAudit({ checkpoint, oldKeys }: VerifyRequest): Promise<Verification> {
  const old = oldKeys === undefined ? [] : secretsIn(oldKeys).map((secret) => new SealKey(secret));
  return onDatabase((query, key) => {
    const keys = new Map([...old, key].map((each) => [each.id, each]));
    return new AuditVerifier(query, keys).verify(checkpoint);
  });
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

function secretsIn(path: string): string[] {
  try {
    return readFileSync(path, 'utf8')
      .split('\n')
      .map((line) => line.trim())
      .filter((line) => line !== '');
  } catch (error) {
    throw new CommandFailed(`The file of old keys cannot be read: ${messageOf(error)}.`);
  }
}

async function onDatabase<Result>(work: (query: Query, key: SealKey) => Promise<Result>): Promise<Result> {
  const variables = readVariables();
  const client = new Client({ connectionString: parseDatabaseUrl(variables), connectionTimeoutMillis: 5_000 });
  const key = new SealKey(parseAuditSealSecret(variables));
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
