import { Browser } from '../support/console-browser.js';
import { UNLEASED } from '../support/settings.js';
import { useApp } from '../support/use-app.js';
import { CountedRefusals } from '../../src/domain/audit/counted-refusals.js';

const ADDRESS = '/console/map';

describe('/console/map', () => {
  const app = useApp({ variables: { ...UNLEASED, CONSOLE: 'on' } });
  let browser: Browser;
  beforeAll(async () => {
    browser = await Browser.logIn(app);
  });

  const show = async (query: string): Promise<string> => (await browser.get(`${ADDRESS}?${query}`).expect(200)).text;
  const ask = async (caller: string, target: string): Promise<string> => {
    const text = await show(`caller=${caller}&target=${target}`);
    return /<p role="status">(.*?)<\/p>/s.exec(text)![1]!.replaceAll(/<[^>]+>/g, '');
  };

  it('answers who may call whom, since when, with which scopes and by which key', async () => {
    const body = { caller: 'ui', target: 'recipes', scopes: ['recipes.read'] };
    const { body: first } = await app.admin.post('/app-credentials', body).expect(201);
    expect(await ask('ui', 'recipes')).toMatch(
      new RegExp(
        `^Yes: ui may call recipes since .* the scopes recipes.read, by the key ${first.app_id}, which does not expire`,
      ),
    );
    expect(await ask('recipes', 'ui')).toBe('No: recipes may not call ui. There was never a key for this pair.');
    await app.admin.delete(`/app-credentials/${first.app_id}`).expect(204);
    expect(await ask('ui', 'recipes')).toMatch(
      new RegExp(`^No: ui may not call recipes. Its latest key, the key ${first.app_id}, was revoked .*ago`),
    );
    const { body: second } = await app.admin.post('/app-credentials', { ...body, scopes: null }).expect(201);
    expect(await ask('ui', 'recipes')).toMatch(new RegExp(`^Yes: .* with all scopes, by the key ${second.app_id}`));
    await app.admin.delete(`/app-credentials/${second.app_id}`).expect(204);
    expect(await ask('ui', 'recipes')).toContain(second.app_id);
  });

  it('answers with the latest of more than 100 keys of a pair', async () => {
    let latest = '';
    for (let issued = 0; issued < 101; issued += 1) {
      latest = (await app.service('often', 'renewed')).appId;
      await app.admin.delete(`/app-credentials/${latest}`).expect(204);
    }
    expect(await ask('often', 'renewed')).toContain(`Its latest key, the key ${latest}, was revoked`);
  });

  it('shows revoked keys of a neighbour too, when it shows those of the service', async () => {
    const { appId } = await app.service('former', 'neighbour');
    await app.admin.delete(`/app-credentials/${appId}`).expect(204);
    const text = await show('service=former&revoked=true');
    const links = [...text.matchAll(/href="([^"]*service=neighbour[^"]*)"/g)].map(([, link = '']) => link);
    expect(links).toHaveLength(2);
    for (const link of links) expect(link).toContain('revoked=true');
  });

  it('draws a pair for users with a dot, and says so in words, in the table, in the answer and on its page', async () => {
    const pair = { caller: 'web', target: 'pages', scopes: ['pages.read'] };
    await app.admin.post('/app-credentials', { ...pair, caller: 'cron' }).expect(201);
    const { body } = await app.admin.post('/app-credentials', { ...pair, for_users: true }).expect(201);
    const text = await show('service=pages');
    expect(text.match(/aria-label="\w+ calls pages: [^"]*"/g)).toEqual([
      'aria-label="cron calls pages: last used never"',
      'aria-label="web calls pages: last used never, for users"',
    ]);
    expect(text.match(/marker-start="url\(#for-users\)"/g)).toHaveLength(1);
    const words = text.replaceAll(/<[^>]+>/g, ' ');
    expect(words).toMatch(/cron\s+pages\s+live\s+no\s[^]*web\s+pages\s+live\s+yes\s/);
    expect(await ask('web', 'pages')).toMatch(/ It may act for users there\.$/);
    expect(await ask('cron', 'pages')).not.toContain('users');
    const page = (await browser.get(`/console/app-credentials/${body.app_id}`).expect(200)).text;
    expect(page.replaceAll(/<[^>]+>/g, ' ')).toMatch(/For users\s+yes\s/);
  });

  it('keeps a form that is wrong, and says so beside its field', async () => {
    for (const [query, field] of [
      ['service=Wrong+One', 'service'],
      ['caller=Wrong+One&target=ocr', 'caller'],
    ]) {
      const { text } = await browser.get(`${ADDRESS}?${query}`).expect(400);
      expect(text).toContain(`id="field-${field}-error"`);
      expect(text.match(/value="Wrong One"/g)).toHaveLength(1);
      expect(text.match(/role="alert"/g)).toHaveLength(1);
    }
  });

  it('fits the window, and is enlarged by links that keep the filter', async () => {
    await app.service('a', 'b');
    const [fit, twice] = [await show('service=a'), await show('service=a&zoom=2')];
    const read = (text: string) => /class="(map[\w ]*)".*<svg width="([\d.]+)".*?viewBox="0 0 ([\d.]+)/s.exec(text)!;
    const [, ofFit, width, natural] = read(fit);
    expect({ ofFit, width }).toEqual({ ofFit: 'map overflow', width: natural });
    const [, ofTwice, enlarged] = read(twice);
    expect({ ofTwice, enlarged: Number(enlarged) }).toEqual({
      ofTwice: 'map zoomed overflow',
      enlarged: 2 * Number(natural),
    });
    expect(fit).toContain(`href="${ADDRESS}?service=a&amp;zoom=2"`);
    expect(await show('service=a&zoom=1e9')).toContain('class="map overflow"');
  });

  it('draws services that are named like what every object inherits', async () => {
    for (const name of ['constructor', 'toString', 'hasOwnProperty']) await app.service(name, 'valueOf');
    const text = await show('service=valueOf');
    for (const name of ['constructor', 'toString', 'hasOwnProperty', 'valueOf'])
      expect(text).toContain(`href="${ADDRESS}?service=${name}"><rect`);
  });

  it('keeps the dashes of an unused key in its red', async () => {
    const { appId } = await app.service('hermit', 'auth');
    await app
      .post('/internal/validate-app')
      .set({ 'X-Platform-App-Id': appId, 'X-Platform-App-Key': `pa_app_${'x'.repeat(43)}` })
      .expect(401);
    await app.nest.get(CountedRefusals).flush();
    expect(await show('service=hermit')).toContain('<path class="bad unused"');
  });
});
