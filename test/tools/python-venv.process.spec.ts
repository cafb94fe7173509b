import { execFile } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { fromRoot } from '../support/from-root.js';
import { makeFolder } from '../support/temporary-folders.js';

const run = promisify(execFile);
const TOOL = pathToFileURL(fromRoot('dist/tools/python-venv.js')).href;

describe('a virtual environment', () => {
  let folder: string;
  let log: string;
  /** @returns the path of its Python, or the message of the error */
  let prepare: (module: string) => Promise<string>;

  beforeEach(() => {
    folder = makeFolder('venv');
    log = join(folder, 'log');
    const [python, requirements] = ['python', 'requirements.txt'].map((name) => join(folder, name));
    // `pip install` refuses to run without a list.
    writeFileSync(requirements!, '');
    writeFileSync(python!, `#!/bin/sh\necho "$2" >>'${log}'\nexec python3 "$@"\n`, { mode: 0o755 });
    mkdirSync(join(folder, 'project'));
    prepare = async (module) => {
      const packages = ['--no-index', '--requirement', requirements];
      const venv = { folder: join(folder, 'project/.venv'), packages, manifest: '', imports: [module] };
      const program = `import { prepareVenv } from '${TOOL}';
        try { console.log(prepareVenv(${JSON.stringify(venv)})); } catch (error) { console.log(error.message); }`;
      const words = ['--input-type=module', '--eval', program];
      return (await run(process.execPath, words, { env: { ...process.env, PYTHON: python } })).stdout.trim();
    };
  });

  it('that two programs need at the same time is made once', async () => {
    const both = await Promise.all([prepare('json'), prepare('json')]);
    expect(both).toEqual(Array(2).fill(join(folder, 'project/.venv/bin/python')));
    const made = readFileSync(log, 'utf8')
      .split('\n')
      .filter((word) => word === 'venv');
    expect(made).toHaveLength(1);
  });

  it('that cannot be made says why in one line', async () => {
    expect(await prepare('no_such_module')).toMatch(/^\S+python: ModuleNotFoundError: .*'no_such_module'$/);
  });
});
