import { readFileSync, existsSync, writeFileSync } from 'node:fs';
import type { Cleanup } from '../../tools/cleanup.js';
import { runChild } from './child.js';
import { EXAMPLE, ExampleError, toPath } from './paths.js';

const VERSION_TIMEOUT_MS = 20_000;
const INSTALL_TIMEOUT_MS = 300_000;
const MIN_MINOR = 11;
const REQUIREMENTS = `${EXAMPLE}/ocr/requirements.txt`;
const VENV = `${EXAMPLE}/.venv`;
const READ_VERSION = 'import ensurepip, venv, sys; print(*sys.version_info[:2])';

/**
 * The Python of a virtual environment with the packages of ocr, made at the first start and kept.
 * @throws {ExampleError}
 */
export async function preparePython(cleanup: Cleanup): Promise<string> {
  const { PYTHON = 'python3', ...inherited } = process.env;
  const version = await readVersion(PYTHON, cleanup);
  const python = toPath(VENV, process.platform === 'win32' ? 'Scripts/python.exe' : 'bin/python');
  const stamp = toPath(VENV, 'installed.txt');
  const wanted = `${PYTHON} ${version}\n${readFileSync(toPath(REQUIREMENTS), 'utf8')}`;
  if (existsSync(python) && existsSync(stamp) && readFileSync(stamp, 'utf8') === wanted) return python;
  console.log(`Installing the packages of ocr into ${VENV}, only the first time …`);
  // Settings of pip, such as the address of an index.
  const settings = Object.entries(inherited).filter(([name]) => /^(PIP_|SSL_CERT|https?_proxy|no_proxy)/i.test(name));
  const variables = { ...(Object.fromEntries(settings) as Record<string, string>), PIP_DISABLE_PIP_VERSION_CHECK: '1' };
  const options = { cleanup, timeoutMs: INSTALL_TIMEOUT_MS, variables };
  try {
    await runChild(PYTHON, ['-m', 'venv', '--clear', VENV], options);
    const packages = ['--requirement', REQUIREMENTS, '--editable', 'clients/python'];
    await runChild(python, ['-m', 'pip', 'install', '--quiet', ...packages], options);
  } catch (error) {
    throw explain(`Its packages could not be installed: ${String(error)}`, error);
  }
  writeFileSync(stamp, wanted);
  return python;
}

async function readVersion(python: string, cleanup: Cleanup): Promise<string> {
  let version: string;
  try {
    version = await runChild(python, ['-c', READ_VERSION], { cleanup, timeoutMs: VERSION_TIMEOUT_MS });
  } catch (error) {
    throw explain(`${python} is missing, or lacks its module venv.`, error);
  }
  const [major = 0, minor = 0] = version.split(' ').map(Number);
  if (major === 3 && minor >= MIN_MINOR) return version.trim();
  throw explain(`${python} is Python ${version.trim().replace(' ', '.')}.`);
}

function explain(cause: string, error?: unknown): ExampleError {
  return new ExampleError(
    `The service ocr of the example needs Python 3.${MIN_MINOR} or newer, and packages of PyPI. ${cause}\n` +
      'Install Python with venv (Debian: apt-get install python3-venv) or name another one: PYTHON=/path/to/python3 npm run example\n' +
      'Or leave ocr out: npm run example -- --without-python',
    { cause: error },
  );
}
