import { Browser } from '../support/console-browser.js';
import { UNLEASED } from '../support/settings.js';
import { useApp } from '../support/use-app.js';
import { recorded } from '../domain/audit/record.js';

const ADDRESS = '/console/enrolments';
const HOUSEHOLD = '5b1c7a9e-0d35-4c8e-9a57-6f0b1f4f2a10';
const DEVICE = { household_id: HOUSEHOLD, room: 'attic', name: 'sensor' };

describe('/console/enrolments', () => {
  const app = useApp({ variables: { ...UNLEASED, CONSOLE: 'on', NODE_TARGETS: 'ocr' } });
  let browser: Browser;
  beforeAll(async () => {
    browser = await Browser.logIn(app);
    await app.service('ui', 'recipes');
  });

  const issue = async (fields: Record<string, string> = {}) => {
    const form = await browser.readForm(`${ADDRESS}/new`, ADDRESS);
    return browser.send(ADDRESS, { ...form, ...DEVICE, targets: 'ocr', expires_in_minutes: '10', ...fields });
  };

  const readCode = (text: string): string => /enrol --url \$URL ([\w-]+)/.exec(text)![1]!;
  const readId = (text: string): string => new RegExp(`href="${ADDRESS}/([\\w-]{36})"`).exec(text)![1]!;

  it('offers the targets that exist, and the household from whose page the operator comes', async () => {
    const { text } = await browser.get(`${ADDRESS}/new?household_id=${HOUSEHOLD}`).expect(200);
    const boxes = [...text.matchAll(/type="checkbox" name="targets" value="(\w+)"( checked)?/g)];
    expect(boxes.map(([, name, checked]) => [name, checked !== undefined])).toEqual([
      ['ocr', true],
      ['recipes', false],
      ['ui', false],
    ]);
    expect(text).toContain(`value="${HOUSEHOLD}"`);
  });

  it('shows the code once, with its QR code and what the installer types, and a device enrols with it', async () => {
    const { text } = await issue({ targets: 'recipes', expires_in_minutes: '60' });
    const [code, id] = [readCode(text), readId(text)];
    expect(text).toMatch(/role="img" aria-label="The code as a QR code"><svg [^>]*viewBox/);
    expect(text).toContain(`-d '{&quot;code&quot;:&quot;${code}&quot;}`);
    const before = (await browser.get(`${ADDRESS}/${id}`).expect(200)).text;
    expect(before).not.toContain(code);
    expect(before).toContain('<span class="good">open</span>');
    const { body } = await app.post('/api/v0/nodes/enrol').send({ code }).expect(201);
    const { body: node } = await app.admin.get(`/nodes/${body.node_id}`).expect(200);
    expect(node).toMatchObject({ ...DEVICE, targets: ['recipes'] });
    const after = (await browser.get(`${ADDRESS}/${id}`).expect(200)).text;
    expect(after).toContain(`href="/console/nodes/${body.node_id}"`);
    expect(after).not.toContain(`${id}/cancel`);
    const { body: stored } = await app.admin.get(`/enrolments/${id}`).expect(200);
    expect(Date.parse(stored.expires_at) - Date.parse(stored.created_at)).toBe(3_600_000);
    expect(JSON.stringify(app.log.lines)).not.toContain(code);
  });

  it('keeps the form when a field is wrong', async () => {
    const { status, text } = await issue({ room: 'the wrong one', expires_in_minutes: '1441' });
    expect(status).toBe(400);
    expect(text).toContain('value="the wrong one"');
    expect(text).toMatch(/id="field-expires_in_minutes-error"/);
  });

  it('lists open codes, and cancels one, which is unknown afterwards', async () => {
    const { text } = await issue({ name: 'cancelled' });
    const [code, id] = [readCode(text), readId(text)];
    const list = `${ADDRESS}?open=true`;
    expect((await browser.get(list).expect(200)).text).toContain(`href="${ADDRESS}/${id}"`);
    const { headers } = await browser.submit(`${ADDRESS}/${id}/cancel`);
    expect((await browser.get(headers.location!).expect(200)).text).toContain('Done: Cancel.');
    expect((await browser.get(list).expect(200)).text).not.toContain(id);
    await app.post('/api/v0/nodes/enrol').send({ code }).expect(404);
    expect(await recorded(app, { event: 'admin.enrolment.cancelled', subject: id })).toHaveLength(1);
  });
});
