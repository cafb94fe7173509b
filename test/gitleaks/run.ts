// The rules of deploy/gitleaks.toml with the real gitleaks, which Go builds from its module proxy once (about 40 s) and keeps in
// node_modules/.cache. Without Go, or without its proxy, the regular expressions of the rules are tried alone, and the output
// says so. The last line counts.
import { deepStrictEqual } from 'node:assert';
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { z } from 'zod';
import { generateSecret, generateKey } from '../../src/foundation/crypto/secret.js';
import { Checks } from '../../tools/checks.js';
import { buildGoProgram } from '../../tools/go-modules.js';

const RULES = resolve('deploy/gitleaks.toml');
const KEY_RULE = 'platform-auth-key';
const SECRET_RULE = 'platform-auth-secret';
const findings = z.array(z.object({ RuleID: z.string(), Secret: z.string() }));

/** Each stands where keys leak: in a variable, a header, a URL, JSON. */
const KEYS = [
  ...['pa_node_', 'pa_app_', 'pa_admin_'].map((prefix) => generateKey(prefix)),
  `pa_rt_${generateSecret()}${generateSecret()}${generateSecret()}`.slice(0, 118),
];
const LEAKS = KEYS.map(
  (key, index) =>
    [`AUTH_APP_KEY=${key}`, `X-API-Key: id:${key}`, `https://x.org/?key=${key}&a=b`, `{"api_key":"${key}"}`][index % 4],
);
const VALUE = randomBytes(32).toString('base64url');
const SECRETS = [VALUE, VALUE, VALUE, VALUE, `postgresql://auth:${VALUE}@db:5432/auth`];
const SERVICE_LEAKS = [
  `ADMIN_API_KEY=${VALUE}`,
  `  "SECRET_KEY": "${VALUE}",`,
  `MASTER_KEY: ${VALUE}`,
  `export AUDIT_SEAL_KEY='${VALUE}'`,
  `DATABASE_URL=postgresql://auth:${VALUE}@db:5432/auth`,
];
const HARMLESS = [
  'SECRET_KEY=<a secret of at least 32 characters>',
  'ADMIN_API_KEY=${{ secrets.PLATFORM_AUTH_ADMIN_API_KEY }}',
  'DATABASE_URL=postgresql://user:password@host:5432/database',
  'DATABASE_URL=postgresql://auth@db:5432/auth',
  'pa_node_kJ3…',
  'pa_app_secret',
  // A key ends in six characters of checksum.
  generateSecret('pa_node_'),
  'const PREFIX = "pa_admin_";',
  `sha256 ${'0a'.repeat(32)}`,
];

/** @returns the program; undefined when it cannot be built here */
function buildGitleaks(): string | undefined {
  try {
    return buildGoProgram('github.com/zricethezav/gitleaks/v8', 'v8.30.1');
  } catch (error) {
    console.log(`gitleaks was not built: ${error instanceof Error ? error.message : String(error)}`);
    return undefined;
  }
}

function findByProgram(program: string, folder: string, rule: string): string[] {
  const report = join(folder, 'report.json');
  const words = ['dir', folder, '--config', RULES, '--report-path', report, '--exit-code', '0', '--log-level', 'error'];
  const { status, stderr } = spawnSync(program, words, { encoding: 'utf8' });
  if (status !== 0) throw new Error(stderr);
  const found = findings.parse(JSON.parse(readFileSync(report, 'utf8')));
  return found.filter(({ RuleID }) => RuleID === rule).map(({ Secret }) => Secret);
}

function findByExpression(text: string, index: number): string[] {
  const [, expression = ''] = [...readFileSync(RULES, 'utf8').matchAll(/^regex = '''(.+)'''$/gm)][index] ?? [];
  const found = [...text.matchAll(new RegExp(expression, 'g'))];
  return found.map(([all, one = '', other = '']) => one || other || all);
}

const checks = new Checks();
await checks.around(async () => {
  const text = [...HARMLESS, ...LEAKS, ...SERVICE_LEAKS].join('\n');
  const program = buildGitleaks();
  const folder = mkdtempSync(join(tmpdir(), 'platform-auth-gitleaks-'));
  try {
    writeFileSync(join(folder, 'leak.txt'), text);
    await checks.run('the expression of the rule finds every key, and nothing else', () =>
      deepStrictEqual(findByExpression(text, 0), KEYS),
    );
    await checks.run('the expression of the second rule finds every secret of the service', () =>
      deepStrictEqual(findByExpression(text.replace(/.*:password@.*/, ''), 1), SECRETS),
    );
    if (program === undefined) return;
    await checks.run('gitleaks finds every key by the rule, and nothing else', () =>
      deepStrictEqual(findByProgram(program, folder, KEY_RULE).sort(), [...KEYS].sort()),
    );
    await checks.run('gitleaks finds every secret of the service by its variable, and no placeholder', () =>
      deepStrictEqual(findByProgram(program, folder, SECRET_RULE).sort(), [...SECRETS].sort()),
    );
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
