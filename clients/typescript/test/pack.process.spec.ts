import { execFile } from 'node:child_process';

const SCRIPT = 'dist/clients/typescript/test/pack.js';

describe('the packed verifier', () => {
  it('stands alone: ES modules, CommonJS, types, and before a real service', async () => {
    const output = await new Promise<string>((resolve) => {
      execFile(process.execPath, [SCRIPT], (_error, stdout, stderr) => resolve(stderr + stdout));
    });
    expect(output.trim().split('\n').at(-1)).toMatch(/^[1-9]\d* passed, 0 failed$/);
  }, 480_000);
});
