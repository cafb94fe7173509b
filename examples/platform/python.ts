import { readFileSync } from 'node:fs';
import { prepareVenv } from '../../tools/python-venv.js';
import { EXAMPLE, ExampleError, toPath } from './paths.js';

const REQUIREMENTS = toPath(EXAMPLE, 'ocr/requirements.txt');

/**
 * The Python of a virtual environment with the packages of ocr, made at the first start and kept.
 * @throws {ExampleError}
 */
export function preparePython(): string {
  const packages = ['--requirement', REQUIREMENTS, '--editable', toPath('clients/python')];
  const imports = ['fastapi', 'httpx', 'jwt', 'uvicorn.main'];
  try {
    const manifest = readFileSync(REQUIREMENTS, 'utf8');
    return prepareVenv({ folder: toPath(EXAMPLE, '.venv'), packages, manifest, imports });
  } catch (error) {
    const cause = error instanceof Error ? error.message : String(error);
    throw new ExampleError(
      `The service ocr of the example needs Python 3.11 or newer, and packages of PyPI. ${cause}\n` +
        'Install Python with venv (Debian: apt-get install python3-venv) or name another one: PYTHON=/path/to/python3 npm run example\n' +
        'Or leave ocr out: npm run example -- --without-python',
      { cause: error },
    );
  }
}
