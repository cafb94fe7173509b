import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { prepareVenv } from './python-venv.js';

const PROJECT = fileURLToPath(new URL('../../clients/python', import.meta.url));

/** What the tests of clients/python import, and the services of examples/standard-libraries. */
const IMPORTS = `
  aiohttp.test_utils authlib.integrations.requests_client cryptography.hazmat.primitives.asymmetric.rsa
  django.test fastapi flask.cli gevent.monkey gunicorn.app.wsgiapp gunicorn.workers.gthread httpx jsonschema jwt litestar.testing
  mypy.main opentelemetry.sdk.metrics.export prometheus_client pytest requests uvicorn.main uvicorn_worker
`;

type VerifierPython = { readonly python: string } | { readonly obstacle: string };

let found: VerifierPython | undefined;

/** Tries {@link prepareVerifierPython}, once in a process. */
export function findVerifierPython(): VerifierPython {
  return (found ??= tryToPrepare());
}

function tryToPrepare(): VerifierPython {
  try {
    return { python: prepareVerifierPython() };
  } catch (error) {
    return { obstacle: error instanceof Error ? error.message : String(error) };
  }
}

/**
 * @returns the Python of a virtual environment with the verifier of clients/python, the versions that its
 * pyproject.toml requires, and the packages of its tests
 * @throws when there is no Python 3.11 with venv, or the packages cannot be installed
 */
export function prepareVerifierPython(): string {
  const manifest = readFileSync(join(PROJECT, 'pyproject.toml'), 'utf8');
  const packages = ['--editable', `${PROJECT}[test]`];
  return prepareVenv({ folder: join(PROJECT, '.venv'), packages, manifest, imports: IMPORTS.trim().split(/\s+/) });
}
