import { readFileSync } from 'node:fs';
import { Client } from 'pg';
import { SealVerifier, type Verification, BEGIN_VERIFICATION } from '../../audit/seals/seal-verifier.js';
import { formatCheckpoint, SealKey, type SealContent, type StoredSeal, LAST_SEAL } from '../../audit/seals/seal.js';
import type { Query } from '../../audit/seals/seal-chain.js';
import { readVariables } from '../../config/environment.js';
import { parseAuditSealSecret, parseDatabaseUrl } from '../../config/single-variables.js';
import { describeCause } from '../system-errors.js';
import { CommandFailedError } from '../terminal.js';

export interface VerifyRequest {
  readonly checkpoint?: string | undefined;
  /** The path of a file with one former key per line. */
  readonly oldKeys?: string | undefined;
}

/** Verifies the whole audit log by its seals. Only reads. */
export async function verifyAudit({ checkpoint, oldKeys }: VerifyRequest): Promise<Verification> {
  const old = oldKeys === undefined ? [] : readSecrets(oldKeys).map((secret) => new SealKey(secret));
  return withDatabase((query, key) => {
    const keys = new Map([...old, key].map((each) => [each.id, each]));
    return new SealVerifier(query, keys).verifyLog(checkpoint);
  });
}

/** @returns the line that commits to everything sealed so far */
export async function auditCheckpoint(): Promise<string> {
  return withDatabase(async (query, key) => {
    const [seal] = await query<StoredSeal>(LAST_SEAL);
    if (!seal) throw new CommandFailedError('Nothing is sealed yet. Start the service: it seals every few seconds.');
    if (!key.hasSealed(seal))
      throw new CommandFailedError('The last seal is not valid. Run: platform-auth audit verify');
    const { number, at } = JSON.parse(seal.content) as SealContent;
    return formatCheckpoint({ number, at, mac: seal.mac });
  });
}

function readSecrets(path: string): string[] {
  try {
    return readFileSync(path, 'utf8')
      .split('\n')
      .map((line) => line.trim())
      .filter((line) => line !== '');
  } catch (error) {
    throw new CommandFailedError(
      `${path} cannot be read: ${describeCause(error)}. Correct --old-keys.`,
      'file_unusable',
    );
  }
}

async function withDatabase<Result>(work: (query: Query, key: SealKey) => Promise<Result>): Promise<Result> {
  const variables = readVariables();
  const client = new Client({ connectionString: parseDatabaseUrl(variables), connectionTimeoutMillis: 5_000 });
  const key = new SealKey(parseAuditSealSecret(variables));
  client.on('error', () => undefined);
  await client.connect();
  try {
    await client.query(BEGIN_VERIFICATION);
    const query: Query = async <Row extends object>(text: string, values: unknown[] = []) =>
      (await client.query<Row>(text, values)).rows;
    return await work(query, key);
  } finally {
    await client.end();
  }
}
