// The rule of deploy/gitleaks.toml with the real gitleaks, which Go builds from its module proxy once (about 40 s) and keeps in
// node_modules/.cache. Without Go, or without its proxy, the regular expression of the rule is tried alone, and the output
// says so. The last line counts.
import { deepStrictEqual } from 'node:assert';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { z } from 'zod';
import { generateSecret, generateKey } from '../../src/foundation/crypto/secret.js';
import { Checks } from '../../tools/checks.js';
import { buildGoProgram } from '../../tools/go-modules.js';

const RULES = resolve('deploy/gitleaks.toml');
const RULE = 'platform-auth-key';
const findings = z.array(z.object({ RuleID: z.string(), Secret: z.string() }));

/** Each stands where keys leak: in a variable, a header, a URL, JSON. */
const KEYS = [
  ...['pa_node_', 'pa_app_', 'pa_admin_'].flatMap((prefix) => [generateKey(prefix), generateSecret(prefix)]),
  `pa_rt_${generateSecret()}${generateSecret()}${generateSecret()}`.slice(0, 118),
];
const LEAKS = KEYS.map(
  (key, index) =>
    [`AUTH_APP_KEY=${key}`, `X-API-Key: id:${key}`, `https://x.org/?key=${key}&a=b`, `{"api_key":"${key}"}`][index % 4],
);
const HARMLESS = ['pa_node_kJ3…', 'pa_app_secret', 'const PREFIX = "pa_admin_";', `sha256 ${'0a'.repeat(32)}`];

/** @returns the program; undefined when it cannot be built here */
function buildGitleaks(): string | undefined {
  try {
    return buildGoProgram('github.com/zricethezav/gitleaks/v8', 'v8.30.1');
  } catch (error) {
    console.log(`gitleaks was not built: ${error instanceof Error ? error.message : String(error)}`);
    return undefined;
  }
}

function findByProgram(program: string, folder: string): string[] {
  const report = join(folder, 'report.json');
  const words = ['dir', folder, '--config', RULES, '--report-path', report, '--exit-code', '0', '--log-level', 'error'];
  const { status, stderr } = spawnSync(program, words, { encoding: 'utf8' });
  if (status !== 0) throw new Error(stderr);
  const found = findings.parse(JSON.parse(readFileSync(report, 'utf8')));
  return found.filter(({ RuleID }) => RuleID === RULE).map(({ Secret }) => Secret);
}

function findByExpression(text: string): string[] {
  const [, expression = ''] = /^regex = '''(.+)'''$/m.exec(readFileSync(RULES, 'utf8')) ?? [];
  return text.match(new RegExp(expression, 'g')) ?? [];
}

const checks = new Checks();
await checks.around(async () => {
  const text = [...HARMLESS, ...LEAKS].join('\n');
  const program = buildGitleaks();
  const folder = mkdtempSync(join(tmpdir(), 'platform-auth-gitleaks-'));
  try {
    writeFileSync(join(folder, 'leak.txt'), text);
    await checks.run('the expression of the rule finds every key, and nothing else', () =>
      deepStrictEqual(findByExpression(text), KEYS),
    );
    if (program === undefined) return;
    await checks.run('gitleaks finds every key by the rule, and nothing else', () =>
      deepStrictEqual(findByProgram(program, folder).sort(), [...KEYS].sort()),
    );
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
