// Makes a release of the verifiers, and installs each package as a stranger does: into an empty folder, without the checkout.
// `npm run test:release`. The last line counts.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { Checks } from '../../tools/checks.js';
import { makeTemporaryFolder } from '../../tools/postgres.js';
import { prepareVerifierPython } from '../../tools/verifier-python.js';

const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string };
const TARBALL = `platform-auth-verifier-${version}.tgz`;
const WHEEL = `platform_auth-${version}-py3-none-any.whl`;
const SOURCES = `platform_auth-${version}.tar.gz`;
const GO_MODULE = 'platform-auth.example/clients/go';
const GO_ZIP = `go/${GO_MODULE}/@v/v${version}.zip`;
const TEXTS = [/LICENSE$/, /CHANGELOG\.md$/];
/** Without an environment, so that nothing of the checkout is found. */
const env = { PATH: process.env.PATH, HOME: process.env.HOME, PIP_DISABLE_PIP_VERSION_CHECK: '1', PIP_RETRIES: '10' };
const checks = new Checks();

const TRY_TYPESCRIPT = `
  import { RefusedError, Verifier } from '@platform-auth/verifier';
  const auth = Verifier.forTests({ serviceName: 'recipes' });
  const node = auth.issueNode();
  await auth.verifyNode({ headers: node.headers });
  auth.revoke(node);
  const error = await auth.verifyNode({ headers: node.headers }).catch((refusal) => refusal);
  if (!(error instanceof RefusedError)) throw new Error('not refused');`;

const TRY_PYTHON = `
import importlib.metadata, sys
from platform_auth import RefusedError, Verifier
auth = Verifier.for_tests("recipes")
node = auth.issue_node()
assert auth.verify_node_sync(node.headers) == node.principal
auth.revoke(node)
try:
    auth.verify_node_sync(node.headers)
    raise AssertionError("not refused")
except RefusedError:
    print(importlib.metadata.version("platform-auth"))
`;

const TRY_GO = `package main

import (
	"context"
	"errors"
	"log"

	"platform-auth.example/clients/go/platformauthtest"
	platformauth "platform-auth.example/clients/go"
)

func main() {
	service := platformauthtest.NewService()
	node := service.IssueNode(platformauthtest.Node{})
	config := platformauth.Config{
		URL: "http://auth.test", AppID: "01985f4e-7c3a-7b52-9d1e-000000000c01", AppKey: "pa_app_test", ServiceName: "recipes",
	}
	auth, err := platformauth.New(context.Background(), config, platformauth.WithTransport(service.Transport()))
	if err != nil {
		log.Fatal(err)
	}
	if _, err := auth.VerifyNode(context.Background(), node.Header); err != nil {
		log.Fatal(err)
	}
	service.Revoke(node)
	if _, err := auth.VerifyNode(context.Background(), node.Header); !errors.Is(err, platformauth.ErrRefused) {
		log.Fatal(err)
	}
}
`;

function run(program: string, flags: readonly string[], cwd: string): string {
  return execFileSync(program, flags, { cwd, env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
}

function makeFolder(parent: string, name: string): string {
  const folder = join(parent, name);
  mkdirSync(folder);
  return folder;
}

async function tryRelease(folder: string, release: string): Promise<void> {
  await checks.run('holds the packages, the changelog and checksums, and nothing else', () => {
    const files = readdirSync(release).sort();
    const expected = [TARBALL, WHEEL, SOURCES, 'CHANGELOG.md', 'SHA256SUMS', 'go'].sort();
    if (files.join() !== expected.join()) throw new Error(files.join('\n'));
  });
  await checks.run('can be read by every user', () => {
    const closed = readdirSync(release).filter((name) => (statSync(join(release, name)).mode & 0o444) !== 0o444);
    if (closed.length > 0) throw new Error(closed.join('\n'));
  });
  await checks.run('has the checksum of each file', () => {
    const lines = readFileSync(join(release, 'SHA256SUMS'), 'utf8').trim().split('\n');
    for (const [digest, name = ''] of lines.map((line) => line.split('  '))) {
      const found = createHash('sha256').update(readFileSync(join(release, name)));
      if (found.digest('hex') !== digest) throw new Error(name);
    }
    // Four files of a version for each of three Go modules.
    if (lines.length !== 4 + 3 * 4) throw new Error(lines.join('\n'));
  });
  for (const [name, flags] of [
    [TARBALL, ['tar', '-tzf']],
    [SOURCES, ['tar', '-tzf']],
    [WHEEL, ['python3', '-m', 'zipfile', '-l']],
    [GO_ZIP, ['python3', '-m', 'zipfile', '-l']],
  ] as const) {
    await checks.run(`has licence and changelog in ${name}`, () => {
      const [program, ...words] = flags;
      const listed = run(program, [...words, join(release, name)], folder)
        .split('\n')
        .map((line) => line.split(' ')[0] ?? '');
      for (const text of TEXTS) if (!listed.some((path) => text.test(path))) throw new Error(`${text} is not in it`);
      const strange = listed.filter((path) => /node_modules|\.venv|test_|\.spec\.|\.env/.test(path));
      if (strange.length > 0) throw new Error(strange.join('\n'));
    });
  }
}

async function tryTypescript(folder: string, release: string): Promise<void> {
  await checks.run('installs the tarball into an empty project', () => {
    writeFileSync(join(folder, 'package.json'), '{ "type": "module" }');
    run('npm', ['install', '--silent', '--no-audit', '--no-fund', join(release, TARBALL)], folder);
    writeFileSync(join(folder, 'try.js'), TRY_TYPESCRIPT);
    run(process.execPath, ['try.js'], folder);
  });
}

async function tryGo(folder: string, release: string): Promise<void> {
  await checks.run('builds a program with the Go module from the folder, and another one with gRPC', () => {
    writeFileSync(join(folder, 'main.go'), TRY_GO);
    const [downloaded = '', proxy = ''] = run('go', ['env', 'GOMODCACHE', 'GOPROXY'], folder).split('\n');
    // What others have released is there already, and this release is in no cache.
    const proxies = [`file://${join(release, 'go')}`, `file://${join(downloaded, 'cache/download')}`, proxy];
    const variables = { ...env, GOPROXY: proxies.join(), GONOSUMDB: 'platform-auth.example/*', GOTOOLCHAIN: 'local' };
    const go = (...words: string[]): string =>
      execFileSync('go', words, { cwd: folder, env: variables, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
    const GOMODCACHE = join(folder, 'cache');
    Object.assign(variables, { GOMODCACHE, GOFLAGS: '-modcacherw -mod=mod' });
    go('mod', 'init', 'example.org/stranger');
    go('get', `${GO_MODULE}@v${version}`);
    go('run', '.');
    go('get', `${GO_MODULE}/platformauthgrpc@v${version}`);
    go('build', `${GO_MODULE}/platformauthgrpc`);
    if (!existsSync(join(GOMODCACHE, `${GO_MODULE}@v${version}`, 'LICENSE'))) throw new Error('no licence');
  });
}

async function tryPython(folder: string, release: string): Promise<void> {
  // The pip of the packages' tests installs into it: a copy of its own would take seconds of CPU.
  const pip = prepareVerifierPython();
  run(pip, ['-m', 'venv', '--without-pip', 'venv'], folder);
  const python = join(folder, 'venv/bin/python');
  const runPip = (...words: string[]): string =>
    run(pip, ['-m', 'pip', '--quiet', '--python', python, ...words], folder);
  const install = (...words: string[]): string => runPip('install', '--no-compile', ...words);
  const tryIt = (expected: string): void => {
    const found = run(python, ['-I', '-c', TRY_PYTHON], folder).trim();
    if (found !== expected) throw new Error(`${found} instead of ${expected}`);
    runPip('uninstall', '--yes', 'platform-auth');
  };
  await checks.run('installs the wheel into an empty environment', () => {
    install(join(release, WHEEL));
    tryIt(version);
  });
  await checks.run('installs the source archive', () => {
    install('--no-deps', join(release, SOURCES));
    tryIt(version);
  });
  await checks.run('finds the newest release in a folder, as in a registry', () => {
    install('--no-deps', '--no-index', '--find-links', release, 'platform-auth');
    tryIt(version);
  });
  await checks.run('installs the subdirectory of a Git repository', () => {
    const { version: inGit } =
      /^version = "(?<version>.*)"$/m.exec(readFileSync('clients/python/pyproject.toml', 'utf8'))?.groups ?? {};
    const commit = run('git', ['rev-parse', 'HEAD'], '.').trim();
    install('--no-deps', `git+file://${resolve('.')}@${commit}#subdirectory=clients/python`);
    tryIt(inGit ?? '');
  });
}

await checks.around(async (cleanup) => {
  const folder = makeTemporaryFolder(cleanup, 'release');
  const release = join(folder, 'release');
  execFileSync(process.execPath, ['dist/tools/release-clients.js', release], { stdio: 'inherit' });
  await tryRelease(folder, release);
  await tryTypescript(makeFolder(folder, 'typescript'), release);
  await tryPython(makeFolder(folder, 'python'), release);
  await tryGo(makeFolder(folder, 'go'), release);
});
