import { spawnSync } from 'node:child_process';
import { z } from 'zod';
import type { Variables } from '../src/foundation/config/environment.js';
import { CLI } from './service-cli.js';

const verification = z.object({
  findings: z.array(z.object({ kind: z.string(), row: z.string().optional(), what: z.string() })),
});

/**
 * @returns the findings of `audit verify`
 * @throws when it does not run
 */
export function verifyAudit({ DATABASE_URL, MASTER_KEY }: Variables) {
  const env = { PATH: process.env.PATH, DATABASE_URL, MASTER_KEY };
  const { stdout, stderr } = spawnSync(process.execPath, [CLI, 'audit', 'verify', '--json'], { env, encoding: 'utf8' });
  if (stdout === '') throw new Error(stderr);
  return verification.parse(JSON.parse(stdout)).findings;
}
