import { randomUUID } from 'node:crypto';
import { generateCode } from '../../../src/domain/keys/one-time-codes.js';
import { PurgeJob } from '../../../src/domain/maintenance/jobs.js';
import { problems } from '../../../src/foundation/problems/problems.js';
import { generateSecret } from '../../../src/foundation/crypto/secret.js';
import { expectInvalid, expectProblem } from '../../support/expect-problem.js';
import { raceForRow } from '../../support/row-lock.js';
import { MASTER_KEY } from '../../support/settings.js';
import { expectThrottled } from '../../support/throttled.js';
import { useApp, useReplica } from '../../support/use-app.js';

interface Issued {
  readonly enrolment_id: string;
  readonly code: string;
}

interface Enrolled {
  readonly node_id: string;
  readonly api_key: string;
}

const LIMIT = 3;
/** Windows that do not end while the tests run. */
const HOUR = 3_600;
const NO_LIMIT = { points: 1_000_000, seconds: HOUR };

describe('the enrolment of nodes', () => {
  const app = useApp({ settings: { enrolmentLimitPerAddress: NO_LIMIT, enrolmentLimit: NO_LIMIT } });
  const { clock } = app;
  const replica = useReplica(app);
  const limited = useReplica(app, {
    settings: { enrolmentLimitPerAddress: { points: LIMIT, seconds: HOUR } },
    variables: { TRUST_PROXY: '1' },
  });
  const limitedInAll = useReplica(app, {
    settings: { enrolmentLimit: { points: LIMIT, seconds: HOUR } },
    variables: { TRUST_PROXY: '1' },
  });

  const request = (more: object = {}) => ({ household_id: randomUUID(), room: 'kitchen', name: 'speaker', ...more });
  const issue = async (more: object = {}): Promise<Issued> =>
    (await app.admin.post('/enrolments', request(more)).expect(201)).body as Issued;
  const enrol = (code: unknown, on = app) => on.post('/api/v0/nodes/enrol', { code: code as string });
  const repeat = (code: string, key: string, on = app) => enrol(code, on).set('Idempotency-Key', key);
  const read = async (id: string) => (await app.admin.get(`/enrolments/${id}`).expect(200)).body as object;
  const validate = ({ node_id, api_key }: Enrolled) => app.validateNode(`${node_id}:${api_key}`);
  const reasonsOf = (answer: { headers: Record<string, string> }) =>
    app.log.lines.filter(({ request_id, event }) => event && request_id === answer.headers['x-request-id']);

  it('gives the device that sends the code the credential of a new node', async () => {
    const body = request();
    const issued = await app.admin.post('/enrolments', body).expect(201);
    const { code, ...shown } = issued.body as Issued;
    expect(code).toMatch(/^[0-9A-HJKMNP-TV-Z]{5}-[0-9A-HJKMNP-TV-Z]{5}$/);
    expect(shown).toMatchObject({ ...body, state: 'open', node_id: null, used_at: null });
    expect(issued.headers.location).toBe(`/api/v0/admin/enrolments/${shown.enrolment_id}`);
    expect(await read(shown.enrolment_id)).toEqual(shown);

    const { body: node } = await enrol(code, replica).expect(201);
    const { node_id } = node as Enrolled;
    expect(node).toEqual({ node_id, api_key: expect.any(String) as string, household_id: body.household_id });
    expect((await validate(node as Enrolled).expect(200)).body).toMatchObject({ household_id: body.household_id });
    expect((await app.admin.get(`/nodes/${node_id}`)).body).toMatchObject({ room: 'kitchen', name: 'speaker' });
    expect(await read(shown.enrolment_id)).toMatchObject({ state: 'used', node_id, used_at: expect.any(String) });
  });

  it('gives the node the targets of its enrolment, or those of NODE_TARGETS', async () => {
    const withDefault = await app.startReplica({ variables: { NODE_TARGETS: 'ocr' } });
    const enrolled = async (on: typeof app, more: object) => {
      const { body } = await on.admin.post('/enrolments', request(more)).expect(201);
      const { node_id } = (await enrol((body as Issued).code).expect(201)).body as Enrolled;
      return [body as object, (await app.admin.get(`/nodes/${node_id}`)).body as object];
    };
    const targets = ['recipes'];
    expect(await enrolled(app, { targets })).toMatchObject([{ targets }, { targets }]);
    expect(await enrolled(app, {})).toMatchObject([{ targets: null }, { targets: null }]);
    expect(await enrolled(withDefault, {})).toMatchObject([{ targets: ['ocr'] }, { targets: ['ocr'] }]);
    expect(await enrolled(withDefault, { targets: null })).toMatchObject([{ targets: null }, { targets: null }]);
    await withDefault.stop();
  });

  it.each([
    ['lower case', (code: string) => code.toLowerCase()],
    ['no hyphen', (code: string) => code.replace('-', '')],
    ['blanks', (code: string) => ` ${code.replace('-', ' ')} `],
    ['O for 0, I or L for 1', (code: string) => code.replaceAll('0', 'o').replace('1', 'l').replaceAll('1', 'I')],
  ])('reads a code with %s', async (_what, type) => {
    // The last case needs a code with these digits: issue until there is one.
    let { code } = await issue();
    while (type(code) === code) ({ code } = await issue());
    await enrol(type(code)).expect(201);
  });

  it('answers 404 alike to an unknown code, an expired one, a cancelled one, and text that is no code', async () => {
    const [expired, cancelled] = [await issue({ expires_in_minutes: 1 }), await issue({ expires_in_minutes: 60 })];
    await app.admin.delete(`/enrolments/${cancelled.enrolment_id}`).expect(204);
    await app.admin.delete(`/enrolments/${cancelled.enrolment_id}`).expect(204);
    clock.advance({ minutes: 1 });
    const presented = [generateCode(), expired.code, cancelled.code, 'nonsense'];
    const answers = [];
    for (const code of presented) answers.push(await enrol(code));
    for (const answer of answers) expectProblem(answer, problems.notFound);
    expect(answers.map((answer) => reasonsOf(answer).map(({ event, reason }) => [event, reason]))).toEqual(
      ['unknown', 'expired', 'cancelled', 'unknown'].map((reason) => [['node.enrolment.refused', reason]]),
    );
    expect(await read(expired.enrolment_id)).toMatchObject({ state: 'expired' });
    expect(await read(cancelled.enrolment_id)).toMatchObject({ state: 'cancelled' });
  });

  it('lasts 10 minutes unless the operator says otherwise', async () => {
    const [short, long] = [await issue(), await issue({ expires_in_minutes: 20 })];
    clock.advance({ minutes: 10 });
    expectProblem(await enrol(short.code), problems.notFound);
    await enrol(long.code).expect(201);
  });

  it('answers 409 to a used code, records it for the node, and warns', async () => {
    const { code, enrolment_id } = await issue();
    const { node_id } = (await enrol(code).expect(201)).body as Enrolled;
    clock.advance({ minutes: 60 });
    for (const again of [await enrol(code), await repeat(code, 'another-device')]) {
      expectProblem(again, problems.enrolmentUsed);
      expect(reasonsOf(again)).toMatchObject([{ event: 'node.enrolment.reused', level: 'warn', node_id }]);
      const { body } = await app.admin.get(`/audit-events?subject=${node_id}&event=node.enrolment.reused`);
      const { 'x-request-id': request_id } = again.headers;
      const recorded = {
        request_id,
        actor: expect.objectContaining({ door: 'open' }) as object,
        details: { enrolment_id },
      };
      expect((body as { items: object[] }).items).toContainEqual(expect.objectContaining(recorded));
    }
    expectProblem(await app.admin.delete(`/enrolments/${enrolment_id}`), problems.enrolmentUsed);
  });

  it('registers one node when two devices send the code at once', async () => {
    for (let round = 0; round < 5; round++) {
      const { code, enrolment_id } = await issue();
      const calls = [app, replica, app, replica].map((on) => enrol(code, on));
      const answers = await raceForRow(app.database, 'node_enrolments', enrolment_id, calls);
      expect(answers.map(({ status }) => status).sort()).toEqual([201, 409, 409, 409]);
      const winner = answers.find(({ status }) => status === 201)!.body as Enrolled;
      expect(await read(enrolment_id)).toMatchObject({ node_id: winner.node_id });
    }
  });

  it('gives a device that lost the response a new key of the same node, and ends the former key', async () => {
    const { code } = await issue();
    const first = (await repeat(code, 'device-1').expect(201)).body as Enrolled;
    await validate(first).expect(200);
    clock.advance({ minutes: 9 });
    const second = (await repeat(code, 'device-1', replica).expect(201)).body as Enrolled;
    expect(second.node_id).toBe(first.node_id);
    await validate(first).expect(401);
    await validate(second).expect(200);
    expectProblem(await repeat(code, 'device-2'), problems.enrolmentUsed);
    clock.advance({ minutes: 1 });
    expectProblem(await repeat(code, 'device-1'), problems.enrolmentUsed);
    await validate(second).expect(200);
  });

  it('knows a code during a rotation of MASTER_KEY', async () => {
    const [{ code }, retried] = [await issue(), await issue()];
    await repeat(retried.code, 'device').expect(201);
    const variables = { MASTER_KEY: generateSecret(), MASTER_KEY_PREVIOUS: MASTER_KEY };
    const rotated = await app.startReplica({ variables });
    await enrol(code, rotated).expect(201);
    await repeat(retried.code, 'device', rotated).expect(201);
    await rotated.stop();
  });

  it('stores no code in a form from which it can be read', async () => {
    const { code, enrolment_id } = await issue();
    const key = `plain-${randomUUID()}`;
    await repeat(code, key).expect(201);
    const [row] = await app.database.query<{ row: string }>(
      `SELECT row_to_json(node_enrolments)::text || encode(code_mac, 'escape') AS row FROM node_enrolments WHERE id = $1`,
      [enrolment_id],
    );
    const lines = JSON.stringify(app.log.lines);
    for (const secret of [code, code.replace('-', ''), key]) {
      expect(row!.row).not.toContain(secret);
      expect(lines).not.toContain(secret);
    }
  });

  it('throttles wrong codes by network, and a used code counts as wrong', async () => {
    const [{ code }, used] = [await issue({ expires_in_minutes: 60 }), await issue({ expires_in_minutes: 60 })];
    const from = (address: string, presented: string) => enrol(presented, limited).set('X-Forwarded-For', address);
    // A right code costs nothing.
    await from('203.0.113.1', used.code).expect(201);
    await from('203.0.113.1', used.code).expect(409);
    for (let guess = 1; guess < LIMIT; guess++) await from('203.0.113.1', generateCode()).expect(404);
    expect(expectThrottled(await from('203.0.113.1', code))).toMatchObject({ policy: 'enrolment-address' });
    await from('203.0.113.2', code).expect(201);
  });

  it('throttles the repeats of one enrolment from all networks together', async () => {
    const { code } = await issue({ expires_in_minutes: 60 });
    const from = (index: number) => repeat(code, 'device', limited).set('X-Forwarded-For', `192.0.2.${index}`);
    for (let call = 0; call <= LIMIT; call++) await from(call).expect(201);
    expect(expectThrottled(await from(LIMIT + 1))).toMatchObject({ policy: 'enrolment-address' });
  });

  it('throttles the wrong codes of all networks together', async () => {
    const { code } = await issue({ expires_in_minutes: 60 });
    const from = (address: string, presented: string) => enrol(presented, limitedInAll).set('X-Forwarded-For', address);
    const statuses = [];
    for (let guess = 0; guess <= LIMIT; guess++)
      statuses.push((await from(`198.51.100.${guess}`, generateCode())).status);
    // Wrong codes of the tests above may have begun the same window.
    expect(statuses.at(-1)).toBe(429);
    expect(expectThrottled(await from('198.51.100.99', code))).toMatchObject({ policy: 'enrolment', points: LIMIT });
  });

  it.each([
    ['code', undefined],
    ['code', ''],
    ['code', 7],
    ['code', 'x'.repeat(65)],
  ])('answers 400 to a request with %s = %p', async (field, value) => {
    expectInvalid(await enrol(value), `/${field}`);
  });

  it.each([
    ['household_id', 'kitchen'],
    ['room', ''],
    ['name', 7],
    ['targets', []],
    ['expires_in_minutes', 0],
    ['expires_in_minutes', 1_441],
    ['expires_in_minutes', 1.5],
    ['code', 'AAAAA-AAAAA'],
  ])('answers 400 to an enrolment with %s = %p', async (field, value) => {
    expectInvalid(await app.admin.post('/enrolments', request({ [field]: value })), `/${field}`);
  });

  it('is listed, and forgotten 30 days after its end', async () => {
    const { enrolment_id, code } = await issue({ expires_in_minutes: 1_440 });
    const list = async (query: string) =>
      ((await app.admin.get(`/enrolments?limit=100&${query}`)).body as { items: Issued[] }).items;
    const isListed = async (query = '') => (await list(query)).some((item) => item.enrolment_id === enrolment_id);
    expect(await isListed('open=true')).toBe(true);
    expect(JSON.stringify(await list(''))).not.toContain(code);
    await enrol(code).expect(201);
    expect([await isListed('open=true'), await isListed()]).toEqual([false, true]);
    clock.advance({ days: 30 });
    await app.nest.get(PurgeJob).purgeExpired();
    expect(await isListed()).toBe(true);
    clock.advance({ days: 1, minutes: 1 });
    await app.nest.get(PurgeJob).purgeExpired();
    await app.admin.get(`/enrolments/${enrolment_id}`).expect(404);
  });

  it('has the check symbol of Crockford’s base 32', () => {
    const alphabet = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
    for (let n = 0; n < 100; n++) {
      const digits = Array.from(generateCode().replace('-', ''), (letter) => alphabet.indexOf(letter));
      const value = digits.slice(0, 9).reduce((sum, digit) => sum * 32 + digit, 0);
      expect(value % 37).toBe(digits[9]);
    }
  });
});
