import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { delimiter, join, resolve } from 'node:path';
import { claimPort } from '../../tools/claim-port.js';
import type { Cleanup } from '../../tools/cleanup.js';
import { makeTemporaryFolder } from '../../tools/postgres.js';
import { ServerProcess, type ServerOptions } from '../../tools/server-process.js';
import { prepareVerifierPython } from '../../tools/verifier-python.js';

const EXAMPLES = resolve('examples/standard-libraries');
/** A registry may be slow. */
const FETCH_TIMEOUT_MS = 400_000;

type Command = Pick<ServerOptions, 'program' | 'script' | 'flags' | 'words' | 'cwd'>;

/** A service of examples/standard-libraries, or why this machine cannot run it. */
export interface Library {
  readonly name: string;
  readonly obstacle?: string;
  readonly command?: (port: number) => Command;
  /** Whether its settings demand `exp` and `sid`, and bound the age of the keys. */
  readonly isStrict: boolean;
}

interface Libraries {
  /** They verify access tokens, at `/`. */
  readonly verifiers: readonly Library[];
  /** They exchange access tokens, at `/`; Spring does both, and exchanges at `/exchanged`. */
  readonly exchangers: readonly Library[];
}

export function prepareLibraries(cleanup: Cleanup): Libraries {
  const makeGo = prepareGo(cleanup);
  return {
    verifiers: [
      {
        name: 'jose',
        isStrict: true,
        command: () => ({ script: resolve('dist/examples/standard-libraries/jose.js') }),
      },
      prepareFlask('PyJWT', 'pyjwt_service'),
      makeGo('keyfunc (Go)', 'keyfunc'),
      makeGo('jwx (Go)', 'jwx'),
      makeGo('go-oidc', 'oidc'),
      prepareSpring(cleanup),
    ],
    exchangers: [
      prepareOauth4webapi(),
      prepareFlask('Authlib', 'authlib_service'),
      makeGo('zitadel/oidc (Go)', 'zitadel'),
    ],
  };
}

/** A second service with jose, which accepts only other services on behalf of users. */
export const JOSE_DELEGATED: Library = {
  name: 'jose for delegated tokens',
  isStrict: true,
  command: () => ({ script: resolve('dist/examples/standard-libraries/jose-delegated.js') }),
};

export async function startLibrary(
  cleanup: Cleanup,
  { name, command }: Library,
  variables: Readonly<Record<string, string>>,
): Promise<ServerProcess> {
  if (!command) throw new Error(`${name} cannot be run`);
  const port = await claimPort();
  const server = new ServerProcess(port, { ...command(port), cleanup, variables, onLine: () => undefined });
  return server.start();
}

function prepareOauth4webapi(): Library {
  const cwd = join(EXAMPLES, 'node');
  const library = { name: 'oauth4webapi', isStrict: true };
  const obstacle = findObstacle(() => run('npm', ['ci', '--silent', '--ignore-scripts'], cwd));
  return obstacle === undefined
    ? { ...library, command: () => ({ script: join(cwd, 'oauth4webapi.js') }) }
    : { ...library, obstacle };
}

function prepareFlask(name: string, app: string): Library {
  const python = prepareVerifierPython();
  return {
    name,
    isStrict: true,
    command: (port) => ({
      program: python,
      flags: ['-B', '-m'],
      script: 'flask',
      words: ['--app', app, 'run', '--port', String(port)],
      cwd: EXAMPLES,
    }),
  };
}

/** One program, whose argument names the library. */
function prepareGo(cleanup: Cleanup): (name: string, script: string) => Library {
  const cwd = join(EXAMPLES, 'go');
  const program = join(makeTemporaryFolder(cleanup, 'go'), 'service');
  const obstacle = findObstacle(() => run('go', ['mod', 'download'], cwd));
  if (obstacle === undefined) run('go', ['build', '-o', program, '.'], cwd);
  return (name, script) => ({
    name,
    isStrict: true,
    ...(obstacle === undefined ? { command: () => ({ program, script }) } : { obstacle }),
  });
}

/** Compiled without Maven's plugins, which would be fetched too. */
function prepareSpring(cleanup: Cleanup): Library {
  const project = join(EXAMPLES, 'spring');
  const library = { name: 'Spring Security', isStrict: false };
  const obstacle = findObstacle(() => fetchJars(project));
  if (obstacle !== undefined) return { ...library, obstacle };
  const classes = makeTemporaryFolder(cleanup, 'spring');
  const jars = join(project, 'target/lib/*');
  const sources = join(project, 'src/main/java/org/example');
  const files = readdirSync(sources).map((file) => join(sources, file));
  run('javac', ['-parameters', '-cp', jars, '-d', classes, ...files], project);
  cpSync(join(project, 'src/main/resources'), classes, { recursive: true });
  const flags = ['-XX:TieredStopAtLevel=1', '-cp', [classes, jars].join(delimiter)];
  return { ...library, command: () => ({ program: 'java', flags, script: 'org.example.Service' }) };
}

/** Fetches what pom.xml names into target/lib, unless that was done. */
function fetchJars(project: string): void {
  run('javac', ['-version'], project);
  const pom = readFileSync(join(project, 'pom.xml'), 'utf8');
  // Written last.
  const stamp = join(project, 'target/fetched.xml');
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === pom) return;
  mkdirSync(join(project, 'target'), { recursive: true });
  run('mvn', ['-q', '-B', 'dependency:copy-dependencies', '-DoutputDirectory=target/lib'], project);
  writeFileSync(stamp, pom);
}

function findObstacle(prepare: () => void): string | undefined {
  try {
    prepare();
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message.split('\n')[0] : String(error);
  }
}

function run(program: string, words: readonly string[], cwd: string): void {
  execFileSync(program, words, { cwd, stdio: 'pipe', timeout: FETCH_TIMEOUT_MS });
}
