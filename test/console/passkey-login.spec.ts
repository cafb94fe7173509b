import { Authenticator } from '../domain/second-factors/authenticator.js';
import { recorded } from '../domain/audit/record.js';
import { atOnce } from '../support/at-once.js';
import { Browser, NAMED_HOST as HOST, readPasskeyOptions as readOptions } from '../support/console-browser.js';
import { UNLEASED } from '../support/settings.js';
import type { NamedOperator } from '../support/test-app.js';
import { countByStatus } from '../support/throttled.js';
import { useApp, useReplica } from '../support/use-app.js';

const KEY_AGAIN = 'Your key, again';

const app = useApp({ variables: { ...UNLEASED, CONSOLE: 'on' } });
const replica = useReplica(app);

/** An operator with a passkey. */
async function enrol(authenticator = new Authenticator(), scopes: readonly 'users'[] = ['users']) {
  const operator = await app.operator(scopes);
  const first = await Browser.logIn(app, operator.key, HOST);
  expect((await first.addPasskey(authenticator)).status).toBe(303);
  return { operator, authenticator, first };
}

const open = (at = app, host = HOST): Browser => new Browser(at, host);

/** @returns what the browser is asked after the key */
async function askLogin(browser: Browser, { key }: NamedOperator): Promise<{ readonly challenge: string }> {
  const { text, headers } = await browser.sendKey(key).expect(200);
  expect(headers['set-cookie']).toBeUndefined();
  return readOptions(text);
}

async function logIn({ operator, authenticator }: Awaited<ReturnType<typeof enrol>>): Promise<Browser> {
  const browser = open();
  await browser.sendPasskey(authenticator.get(await askLogin(browser, operator))).expect(303);
  return browser;
}

const isLoggedIn = async (browser: Browser): Promise<boolean> => (await browser.get('/console')).status === 200;

describe('the login of an operator with a passkey', () => {
  it('asks for the passkey beside the key, and records which one it was', async () => {
    const enrolled = await enrol();
    const browser = await logIn(enrolled);
    expect(await isLoggedIn(browser)).toBe(true);
    const subject = enrolled.operator.id;
    const [login] = await recorded(app, { subject, event: 'admin.console.logged_in' });
    const { items } = (await app.admin.get(`/operators/${subject}/passkeys`).expect(200)).body as { items: object[] };
    expect(items).toMatchObject([{ id: login?.details.passkey_id, name: 'phone', last_used_at: expect.any(String) }]);
  });

  it('ends every session that began with the key alone when the first passkey is added', async () => {
    const operator = await app.operator();
    const [one, other] = [await Browser.logIn(app, operator.key, HOST), await Browser.logIn(app, operator.key, HOST)];
    expect((await one.addPasskey(new Authenticator())).status).toBe(303);
    expect([await isLoggedIn(one), await isLoggedIn(other)]).toEqual([false, false]);
  });

  it('does not revive sessions that the first passkey ended when it is removed', async () => {
    const { operator, first } = await enrol();
    const path = `/operators/${operator.id}/passkeys`;
    const { items } = (await app.admin.get(path).expect(200)).body as { items: { id: string }[] };
    await app.admin.delete(`${path}/${items[0]!.id}`).expect(204);
    expect(await isLoggedIn(first)).toBe(false);
  });

  it('keeps sessions that began with a passkey when another one is added', async () => {
    const enrolled = await enrol();
    const browser = await logIn(enrolled);
    expect((await browser.addPasskey(new Authenticator())).status).toBe(303);
    expect((await browser.get('/console/passkeys').expect(200)).text.match(/Remove …/g)).toHaveLength(2);
  });

  it.each<[string, (enrolled: Awaited<ReturnType<typeof enrol>>) => Promise<object>]>([
    ['of another authenticator', async ({ operator }) => new Authenticator().get(await askLogin(open(), operator))],
    [
      'of another operator',
      async ({ authenticator }) => authenticator.get(await askLogin(open(), (await enrol()).operator)),
    ],
    [
      'to a question before the key was rotated',
      async ({ operator, authenticator }) => {
        const asked = await askLogin(open(), operator);
        await app.admin.post(`/operators/${operator.id}/rotate`, {}).expect(200);
        return authenticator.get(asked);
      },
    ],
    [
      'of a revoked operator',
      async ({ operator, authenticator }) => {
        const asked = await askLogin(open(), operator);
        await app.admin.delete(`/operators/${operator.id}`).expect(204);
        return authenticator.get(asked);
      },
    ],
    [
      'that was used before',
      async ({ operator, authenticator }) => {
        const answer = authenticator.get(await askLogin(open(), operator));
        await open().sendPasskey(answer).expect(303);
        return answer;
      },
    ],
    [
      'of a copy of the authenticator',
      async (enrolled) => {
        await logIn(enrolled);
        enrolled.authenticator.counter = 0;
        return enrolled.authenticator.get(await askLogin(open(), enrolled.operator));
      },
    ],
    [
      'to the question of another form',
      async (enrolled) => {
        const browser = await logIn(enrolled);
        app.clock.advance({ minutes: 6 });
        const { text } = await browser.get('/console/passkeys/new').expect(200);
        return enrolled.authenticator.get(readOptions(text));
      },
    ],
    [
      'after more than 5 minutes',
      async ({ operator, authenticator }) => {
        const asked = await askLogin(open(), operator);
        app.clock.advance({ minutes: 5, seconds: 6 });
        return authenticator.get(asked);
      },
    ],
  ])('refuses an answer %s, and counts it', async (_name, answer) => {
    const enrolled = await enrol();
    const passkey = await answer(enrolled);
    const browser = open();
    const { text } = await browser.sendPasskey(passkey).expect(401);
    expect(text).toContain('The passkey is not valid');
    expect(browser.cookie).toBe('');
    expect(app.log.events('admin.key.refused').at(-1)).toMatchObject({ reason: 'wrong_passkey' });
  });

  it('refuses an authenticator that verified no person', async () => {
    const { operator, authenticator } = await enrol();
    Reflect.set(authenticator, 'options', { verifiesUser: false });
    await open()
      .sendPasskey(authenticator.get(await askLogin(open(), operator)))
      .expect(401);
  });

  it('accepts an answer in exactly one of 20 concurrent logins over two replicas', async () => {
    const { operator, authenticator } = await enrol(new Authenticator({ counterStep: 0 }));
    const answer = authenticator.get(await askLogin(open(), operator));
    const answers = await atOnce(20, (i) => open(i % 2 ? app : replica).sendPasskey(answer));
    expect(answers.filter(({ status }) => status === 303)).toHaveLength(1);
    expect(Object.keys(countByStatus(answers)).sort()).not.toContain('500');
  });

  it('fails closed at an address that is not one of WEBAUTHN_ORIGINS', async () => {
    const { operator } = await enrol();
    const browser = open(app, '127.0.0.1:7701');
    const { text } = await browser.sendKey(operator.key).expect(403);
    expect(text).toContain('No passkeys at this address');
    expect(browser.cookie).toBe('');
  });

  it('needs the key alone after an operator removed the last passkey, which ends the sessions that began with it', async () => {
    const enrolled = await enrol();
    const browser = await logIn(enrolled);
    const path = `/operators/${enrolled.operator.id}/passkeys`;
    const { items } = (await app.admin.get(path).expect(200)).body as { items: { id: string }[] };
    await app.admin.delete(`${path}/${items[0]!.id}`).expect(204);
    expect(await isLoggedIn(browser)).toBe(false);
    expect(await isLoggedIn(await Browser.logIn(app, enrolled.operator.key, HOST))).toBe(true);
  });

  it('says without JavaScript what is missing', async () => {
    const { operator } = await enrol();
    const { text } = await open().sendKey(operator.key).expect(200);
    expect(/<noscript>.*?<\/noscript>/.exec(text)?.[0]).toContain('A passkey needs JavaScript');
    const refused = await open().send('/console/login/passkey', { next: '' }).expect(400);
    expect(refused.text).toContain('passkey is missing; a passkey needs JavaScript');
  });

  it('refuses a key that a rotation replaced, which programs may still use', async () => {
    const operator = await app.operator();
    const { body } = await app.admin.post(`/operators/${operator.id}/rotate`, {}).expect(200);
    await operator.as().get('/nodes').expect(200);
    const browser = open();
    const { text } = await browser.sendKey(operator.key).expect(401);
    expect(text).toContain('The key was replaced');
    expect(browser.cookie).toBe('');
    const { api_key } = body as { api_key: string };
    expect(await isLoggedIn(await Browser.logIn(app, api_key, HOST))).toBe(true);
  });
});

describe('the page of passkeys', () => {
  it('removes one, after which the key alone opens the console', async () => {
    const enrolled = await enrol();
    const browser = await logIn(enrolled);
    const [, path = ''] =
      /href="(\/console\/passkeys\/[^"]+\/remove)"/.exec((await browser.get('/console/passkeys')).text) ?? [];
    expect((await browser.submit(path)).status).toBe(303);
    expect(await recorded(app, { subject: enrolled.operator.id, event: 'operator.passkey.removed' })).toMatchObject([
      { actor: { id: enrolled.operator.id } },
    ]);
    await Browser.logIn(app, enrolled.operator.key, HOST);
  });

  it('does not remove the last one by a page that was opened while there was another', async () => {
    const enrolled = await enrol();
    const browser = await logIn(enrolled);
    const [, path = ''] =
      /href="(\/console\/passkeys\/[^"]+\/remove)"/.exec((await browser.get('/console/passkeys')).text) ?? [];
    await browser.addPasskey(new Authenticator()).then(({ status }) => expect(status).toBe(303));
    const opened = await browser.readForm(path);
    expect((await browser.get(path)).text).not.toContain('Your key alone opens the console then.');
    const { text } = await browser.get('/console/passkeys').expect(200);
    const links = [...text.matchAll(/href="(\/console\/passkeys\/[^"]+\/remove)"/g)].map(([, link = '']) => link);
    const [other = ''] = links.filter((link) => link !== path);
    expect((await browser.submit(other)).status).toBe(303);
    await browser.send(path, opened).expect(409);
    expect((await browser.get(path).expect(200)).text).toContain('Your key alone opens the console then.');
  });

  it('shows and removes no passkey of another operator', async () => {
    const [one, other] = [await enrol(), await enrol()];
    const [oneBrowser, otherBrowser] = [await logIn(one), await logIn(other)];
    const [, path = ''] =
      /href="(\/console\/passkeys\/[^"]+\/remove)"/.exec((await oneBrowser.get('/console/passkeys')).text) ?? [];
    await otherBrowser.get(path).expect(404);
    expect((await otherBrowser.get('/console/passkeys').expect(200)).text).not.toContain(path);
  });

  it('adds none without an answer of the browser, or with a name that is none', async () => {
    const browser = await Browser.logIn(app, (await app.operator()).key, HOST);
    const form = await browser.readForm('/console/passkeys/new', '/console/passkeys');
    const missing = await browser.send('/console/passkeys', { ...form, name: 'phone' }).expect(400);
    expect(missing.text).toContain('passkey is missing');
    const again = await browser.readForm('/console/passkeys/new', '/console/passkeys');
    await browser.send('/console/passkeys', { ...again, name: '', new_passkey: '{}' }).expect(400);
    expect((await browser.get('/console/passkeys').expect(200)).text).toContain('Passkeys: none.');
  });

  it('is for operators, and not for the root key', async () => {
    const { text } = await (await Browser.logIn(app)).get('/console/passkeys').expect(403);
    expect(text).toContain('Passkeys belong to operators');
  });
});

describe('an action that asks again, in a session that began with a passkey', () => {
  const openOldPage = async () => {
    const enrolled = await enrol();
    const browser = await logIn(enrolled);
    const { id, email: name } = await app.user();
    app.clock.advance({ minutes: 6 });
    const path = `/console/users/${id}/delete`;
    const { text } = await browser.get(path).expect(200);
    const isThere = async () => (await app.admin.get(`/users/${id}`)).status === 200;
    return { ...enrolled, browser, path, name, text, isThere };
  };

  it('needs the passkey, once in 5 minutes', async () => {
    const { authenticator, browser, path, name, text, isThere } = await openOldPage();
    expect(text).not.toContain(KEY_AGAIN);
    const passkey = JSON.stringify(authenticator.get(readOptions(text)));
    expect((await browser.submit(path, { name, passkey })).status).toBe(303);
    expect(await isThere()).toBe(false);
    const { id } = await app.user();
    expect((await browser.get(`/console/users/${id}/delete`).expect(200)).text).not.toContain('data-passkey');
  });

  it('does not take the key in its place, nor an answer of another operator or of the login', async () => {
    const { operator, authenticator, browser, path, name, isThere } = await openOldPage();
    const { status, text } = await browser.submit(path, { name, key: operator.key });
    expect({ status, text }).toEqual({ status: 400, text: expect.stringContaining('data-passkey') as string });
    const other = await openOldPage();
    const foreign = JSON.stringify(other.authenticator.get(readOptions(other.text)));
    expect((await browser.submit(path, { name, passkey: foreign })).status).toBe(401);
    const ofLogin = JSON.stringify(authenticator.get(await askLogin(open(), operator)));
    expect((await browser.submit(path, { name, passkey: ofLogin })).status).toBe(401);
    expect(app.log.events('admin.key.refused').at(-1)).toMatchObject({ reason: 'wrong_passkey' });
    expect(await isThere()).toBe(true);
  });

  it('takes an answer once', async () => {
    const first = await openOldPage();
    const passkey = JSON.stringify(first.authenticator.get(readOptions(first.text)));
    expect((await first.browser.submit(first.path, { name: first.name, passkey })).status).toBe(303);
    app.clock.advance({ minutes: 5, seconds: 1 });
    const { id, email: name } = await app.user();
    expect((await first.browser.submit(`/console/users/${id}/delete`, { name, passkey })).status).toBe(401);
  });
});
