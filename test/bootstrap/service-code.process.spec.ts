import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { SERVICE_FLAGS } from '../../tools/service.js';
import { fromRoot } from '../support/from-root.js';

/** Loads the bundle of a folder as dist/service/main.js does, without starting the service. */
const LOAD = `const [loader, name] = process.argv.slice(1);
  const { loadBundle } = await import(loader);
  const { script, service } = loadBundle(name);
  console.log(script.cachedDataRejected, typeof service.runService);`;

describe('the code of the bundle that V8 compiled during the build', () => {
  const files = readdirSync(fromRoot('dist/service')).filter((file) => file.startsWith('service-'));
  const name = files.find((file) => file.endsWith('.code'))?.replace('.code', '') ?? 'none';
  let folder: string;

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'platform-auth-code-'));
    for (const file of [...files, '../../package.json'])
      cpSync(fromRoot(`dist/service/${file}`), join(folder, file.split('/').at(-1)!));
  });

  afterEach(() => rmSync(folder, { recursive: true }));

  const load = (flags: readonly string[]): string => {
    const loader = pathToFileURL(join(folder, 'service-code.js')).href;
    const words = [...flags, '--input-type=module', '--eval', LOAD, loader, name];
    return spawnSync(process.execPath, words, { encoding: 'utf8' }).stdout.trim();
  };

  it('is used with the flags of `npm start`', () => {
    expect(load(SERVICE_FLAGS)).toBe('false function');
  });

  it('is compiled again at a start with other flags', () => {
    expect(load(['--max-old-space-size=300'])).toBe('true function');
  });

  it('is compiled again when the file is incomplete', () => {
    truncateSync(join(folder, `${name}.code`), 100_000);
    expect(load(SERVICE_FLAGS)).toBe('undefined function');
  });

  it.each([
    // A byte of V8's header that V8 does not check.
    ['the code', 'code', 28, 0x01],
    // The line break behind the opening brace of the bundle becomes a tab: V8 compares its length only.
    ['the bundle', 'cjs', '(function (module, exports, require, bundleUrl) {'.length, 0x03],
  ])('is compiled again when a byte of %s was changed', (_name, ending, offset, bits) => {
    const file = join(folder, `${name}.${ending}`);
    const content = readFileSync(file);
    content[offset]! ^= bits;
    writeFileSync(file, content);
    expect(load(SERVICE_FLAGS)).toBe('undefined function');
  });

  it('is compiled again when the file is missing', () => {
    rmSync(join(folder, `${name}.code`));
    expect(load(SERVICE_FLAGS)).toBe('undefined function');
  });
});
