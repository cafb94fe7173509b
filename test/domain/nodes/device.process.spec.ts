import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { randomUUID } from 'node:crypto';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { generateKey } from '../../../src/foundation/crypto/secret.js';
import { urlOf } from '../../support/cli.js';
import { fromRoot } from '../../support/from-root.js';
import { HttpGate } from '../../support/http-gate.js';
import { useApp } from '../../support/use-app.js';

const PROGRAM = fromRoot('clients/node/platform_auth_node.py');
const PLACE = { household_id: randomUUID(), room: 'hall', name: 'lamp' };

describe('the reference client of a device (clients/node)', () => {
  const app = useApp();
  const folder = mkdtempSync(join(tmpdir(), 'platform-auth-device-'));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  const issueCode = async (): Promise<string> => {
    return ((await app.admin.post('/enrolments', PLACE).expect(201)).body as { code: string }).code;
  };
  const run = async (file: string, words: string[], input = '') => {
    const child = spawn('python3', [PROGRAM, '--file', file, ...words]);
    let [stdout, stderr] = ['', ''];
    child.stdout.on('data', (chunk: Buffer) => void (stdout += chunk.toString()));
    child.stderr.on('data', (chunk: Buffer) => void (stderr += chunk.toString()));
    child.stdin.on('error', () => undefined).end(input);
    await once(child, 'close');
    return { code: child.exitCode, stdout, stderr };
  };
  const enrol = (file: string, code: string, url = urlOf(app)) => run(file, ['enrol', '--url', url, code]);
  const enrolledFile = async (): Promise<string> => {
    const file = join(folder, `${randomUUID()}.json`);
    expect(await enrol(file, await issueCode())).toMatchObject({ code: 0, stderr: '' });
    return file;
  };
  const check = () => ['rotate', '--check', `${urlOf(app)}/internal/authorize/node`];
  const contentOf = (file: string) => JSON.parse(readFileSync(file, 'utf8')) as Record<string, string>;
  const headerOf = (file: string) => `${contentOf(file).node_id}:${contentOf(file).api_key}`;

  it('enrols, and writes its credential into a file of its own, once', async () => {
    const file = join(folder, 'node.json');
    const code = await issueCode();
    expect(await enrol(file, code.toLowerCase().replace('-', ''))).toMatchObject({ code: 0, stderr: '' });
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(Object.keys(contentOf(file)).sort()).toEqual(['api_key', 'household_id', 'node_id']);
    expect(readdirSync(folder).filter((name) => name.endsWith('.tmp'))).toEqual([]);
    const { stdout } = await run(file, ['header']);
    expect(stdout).toBe(`${headerOf(file)}\n`);
    await app.validateNode(stdout.trim()).expect(200);
    expect(await enrol(file, await issueCode())).toMatchObject({ code: 1 });
    const other = await enrol(join(folder, 'other.json'), code);
    expect(other).toMatchObject({ code: 1, stderr: expect.stringContaining('another device may have it') });
  });

  it('sends no request for a code with a typing error', async () => {
    const code = await issueCode();
    const wrong = code.slice(0, -1) + (code.endsWith('A') ? 'B' : 'A');
    const result = await enrol(join(folder, 'typo.json'), wrong, 'http://127.0.0.1:9');
    expect(result).toMatchObject({ code: 1, stderr: expect.stringContaining('typing error') });
  });

  it('enrols once when it loses power before the answer arrives, and its clock jumps to the present', async () => {
    const gate = await HttpGate.before(urlOf(app));
    const isAnswered = gate.stopAt({ request: 1, when: 'after' });
    const file = join(folder, 'power.json');
    const { body } = await app.admin.post('/enrolments', PLACE).expect(201);
    const { code, enrolment_id } = body as { code: string; enrolment_id: string };
    writeFileSync(join(folder, 'sitecustomize.py'), 'import time\ntime.time = lambda: 0.0\n');
    const words = [PROGRAM, '--file', file, 'enrol', '--url', gate.url, code];
    const device = spawn('python3', words, { env: { ...process.env, PYTHONPATH: folder } });
    await isAnswered;
    device.kill('SIGKILL');
    await once(device, 'close');
    gate.resume();
    gate.close();
    expect(await enrol(file, code)).toMatchObject({ code: 0, stderr: '' });
    const enrolment = await app.admin.get(`/enrolments/${enrolment_id}`);
    expect(enrolment.body).toMatchObject({ node_id: contentOf(file).node_id });
    await app.validateNode(headerOf(file)).expect(200);
  });

  it('forgets a code that the service refused', async () => {
    const file = join(folder, 'refused.json');
    const code = await issueCode();
    expect(await enrol(join(folder, 'first.json'), code)).toMatchObject({ code: 0 });
    expect(await enrol(file, code)).toMatchObject({ code: 1 });
    expect(contentOf(file)).toEqual({});
  });

  it('rotates in two phases: the new key replaces the old one when a service has accepted it', async () => {
    const file = await enrolledFile();
    const old = headerOf(file);
    const { body } = await app.admin.post(`/nodes/${contentOf(file).node_id}/rotate`).expect(200);
    const { api_key: next } = body as { api_key: string };
    const away = await run(file, ['rotate', '--check', `${urlOf(app)}/nowhere`], next);
    expect(away).toMatchObject({ code: 3 });
    expect(contentOf(file)).toMatchObject({ api_key: old.slice(37), next_api_key: next });
    await app.validateNode(old).expect(200);
    expect(await run(file, check())).toMatchObject({ code: 0, stderr: '' });
    expect(contentOf(file)).toMatchObject({ api_key: next });
    expect(contentOf(file)).not.toHaveProperty('next_api_key');
    await app.validateNode(headerOf(file)).expect(200);
    await app.validateNode(old).expect(401);
  });

  it('rotates its own key', async () => {
    const file = await enrolledFile();
    const old = headerOf(file);
    expect(await run(file, [...check(), '--url', urlOf(app)])).toMatchObject({ code: 0, stderr: '' });
    expect(headerOf(file)).not.toBe(old);
    await app.validateNode(headerOf(file)).expect(200);
    await app.validateNode(old).expect(401);
  });

  it('takes the header that `nodes rotate` prints for the new key', async () => {
    const file = await enrolledFile();
    const { node_id } = contentOf(file);
    const { body } = await app.admin.post(`/nodes/${node_id}/rotate`).expect(200);
    const { api_key: next } = body as { api_key: string };
    expect(await run(file, check(), `${node_id}:${next}\n`)).toMatchObject({ code: 0, stderr: '' });
    expect(contentOf(file)).toMatchObject({ api_key: next });
  });

  it('stores nothing that is not a key of this node, and does not show it', async () => {
    const file = await enrolledFile();
    const before = contentOf(file);
    const key = generateKey('pa_node_');
    const bad = [`NODE_ID=${before.node_id}\nAPI_KEY=${key}`, `${randomUUID()}:${key}`, key.slice(0, 30), `${key}\xff`];
    for (const input of bad) {
      const { code, stderr } = await run(file, check(), input);
      expect({ code, isShown: stderr.includes(key.slice(0, 20)), lines: stderr.trim().split('\n').length }).toEqual({
        code: 1,
        isShown: false,
        lines: 1,
      });
    }
    expect(contentOf(file)).toEqual(before);
  });

  it('forgets a new key that is refused where the old one is accepted', async () => {
    const file = await enrolledFile();
    const before = contentOf(file);
    expect(await run(file, check(), generateKey('pa_node_'))).toMatchObject({ code: 1 });
    expect(contentOf(file)).toEqual(before);
  });

  it('keeps both keys when the service refuses both', async () => {
    const file = await enrolledFile();
    const before = contentOf(file);
    await app.admin.delete(`/nodes/${before.node_id}`).expect(204);
    const next_api_key = generateKey('pa_node_');
    expect(await run(file, check(), next_api_key)).toMatchObject({ code: 3 });
    expect(contentOf(file)).toEqual({ ...before, next_api_key });
  });

  it('names a file that cannot be used', async () => {
    const file = join(folder, 'nowhere', 'node.json');
    expect(await enrol(file, await issueCode())).toEqual({
      code: 1,
      stdout: '',
      stderr: `${file} cannot be used: No such file or directory.\n`,
    });
    const damaged = join(folder, 'damaged.json');
    writeFileSync(damaged, '{"api_key": ');
    const stderr = `${damaged} is not valid JSON.\n`;
    expect(await run(damaged, ['header'])).toEqual({ code: 1, stdout: '', stderr });
  });
});
