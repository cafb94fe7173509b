import { execFile } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { fromRoot } from '../support/from-root.js';
import { makeFolder } from '../support/temporary-folders.js';

const run = promisify(execFile);

it('a virtual environment that two programs need at the same time is made once', async () => {
  const folder = makeFolder('venv');
  const [python, log, requirements] = ['python', 'log', 'requirements.txt'].map((name) => join(folder, name));
  // `pip install` refuses to run without a list.
  writeFileSync(requirements!, '');
  writeFileSync(python!, `#!/bin/sh\necho "$2" >>'${log}'\nexec python3 "$@"\n`, { mode: 0o755 });
  mkdirSync(join(folder, 'project'));
  const venv = {
    folder: join(folder, 'project/.venv'),
    packages: ['--no-index', '--requirement', requirements],
    manifest: '',
    imports: ['json'],
  };
  const tool = pathToFileURL(fromRoot('dist/tools/python-venv.js')).href;
  const program = `import { prepareVenv } from '${tool}'; console.log(prepareVenv(${JSON.stringify(venv)}))`;
  const words = ['--input-type=module', '--eval', program];
  const env = { ...process.env, PYTHON: python };
  const both = await Promise.all([1, 2].map(() => run(process.execPath, words, { env })));
  expect(both.map(({ stdout }) => stdout.trim())).toEqual(Array(2).fill(join(venv.folder, 'bin/python')));
  const made = readFileSync(log!, 'utf8')
    .split('\n')
    .filter((word) => word === 'venv');
  expect(made).toHaveLength(1);
});
