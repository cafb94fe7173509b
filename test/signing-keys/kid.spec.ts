import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { generateKeyPair } from '../../src/crypto/key-pair.js';

const COMPILED = join(import.meta.dirname, '../../dist/src/crypto/key-pair.js');

describe('the kid of a new signing key', () => {
  it('does not begin with a hyphen, so that a command line does not take it for an option', () => {
    // One in 64 thumbprints does.
    const kids = Array.from({ length: 1_000 }, () => generateKeyPair().kid);
    expect(kids.filter((kid) => kid.startsWith('-'))).toEqual([]);
    expect(kids.filter((kid) => !/^[\w-]{43}$/.test(kid))).toEqual([]);
  });
});

describe('a new signing key', () => {
  it('is made whenever Node.js collects garbage', () => {
    const script = `
      const { exportPrivateKey, generateKeyPair } = await import(${JSON.stringify(COMPILED)});
      for (let made = 0; made < 5_000; made += 1) exportPrivateKey(generateKeyPair());
    `;
    // Garbage is collected often. What waits for itself does not answer SIGTERM.
    const options = { timeout: 100_000, killSignal: 'SIGKILL' } as const;
    const flags = ['--max-semi-space-size=1', '--input-type=module'];
    expect(() => execFileSync(process.execPath, [...flags, '--eval', script], options)).not.toThrow();
  });
});
