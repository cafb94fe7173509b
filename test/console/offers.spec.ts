import type { Response } from 'supertest';
import { AdminDoor } from '../../src/api/admin/admin.door.js';
import { RouteTable } from '../../src/foundation/access/route-table.js';
import { OPERATOR_SCOPES } from '../../src/foundation/common/names.js';
import { ProblemException, problems } from '../../src/foundation/problems/problems.js';
import { Browser } from '../support/console-browser.js';
import { Home } from '../support/home.js';
import { UNLEASED } from '../support/settings.js';
import { useApp } from '../support/use-app.js';

/** The forms of each page and of the choice of a time zone, which has hundreds: they need no scope. */
const FOR_ALL = ['/console/logout', '/console/search', '/console/time-zone'];
/** Their forms change nothing for which a scope is needed. */
const WITHOUT_SCOPE = ['logIn', 'logInWithPasskey', 'logOut', 'search', 'ask', 'choose', 'add', 'remove'];

interface SentForm {
  readonly action: string;
  readonly fields: Readonly<Record<string, string>>;
}

function listLinks(page: string): string[] {
  const links = [...page.matchAll(/<a [^>]*href="(\/console(?:\/[^"]*)?)"/g)].map(([, address = '']) => address);
  return links.filter((address) => !/\.(csv|ndjson)/.test(address)).map((address) => address.replace(/[?#].*/, ''));
}

/** @returns the forms of a page, filled in with its hidden fields, the name that it asks for, and an e-mail address */
function listForms(page: string): SentForm[] {
  const name = /<h1>[^<]*: ([^<]*)<\/h1>/.exec(page)?.[1] ?? '';
  const forms = page.matchAll(/<form method="post" action="([^"]*)"(.*?)<\/form>/gs);
  return [...forms]
    .map(([, action = '', content = '']) => {
      const hidden = content.matchAll(/<input type="hidden" name="(\w+)" value="([^"]*)"/g);
      const emails = content.matchAll(/<label for="field-(\w+)">[^<]*e-mail/gi);
      const typed = Object.fromEntries([...emails].map(([, key]) => [key, 'nobody@example.org']));
      return {
        action,
        fields: { ...typed, name, ...Object.fromEntries([...hidden].map(([, key, value]) => [key, value])) },
      };
    })
    .filter(({ action }) => !FOR_ALL.includes(action));
}

/** Passkeys are refused too, at an address that has no name. */
const isRefused = ({ status, text }: Pick<Response, 'status' | 'text'>): boolean =>
  status === 403 && text.includes('can grant it');

/** @returns whether a scope refuses the pages to which links lead, by their addresses */
async function walk(browser: Browser): Promise<Map<string, boolean>> {
  const answers = new Map<string, boolean>();
  const next = ['/console'];
  for (const address of next) {
    if (answers.has(address)) continue;
    const answer = await browser.get(address);
    answers.set(address, isRefused(answer));
    next.push(...listLinks(answer.text));
  }
  return answers;
}

describe('a page of the console', () => {
  const app = useApp({ variables: { ...UNLEASED, CONSOLE: 'on', HOUSEHOLD_NODE_TARGETS: 'ocr' } });
  /** The handlers of forms that called a route of the API which changes something. */
  const sent = new Set<string>();
  let addresses: string[] = [];
  let [isSending, calls] = [false, 0];

  beforeAll(async () => {
    const home = await Home.of(app);
    await home.member();
    await home.invite().expect(201);
    await home.enrolment().expect(201);
    await app.node(home.id);
    await app.admin.post('/app-credentials', { caller: 'ocr', target: 'auth' }).expect(201);
    addresses = [...(await walk(await Browser.logIn(app))).keys()];
    const door = app.nest.get(AdminDoor, { strict: false });
    const refuseMissingScope = door.refuseMissingScope.bind(door);
    // The door asks for the declared scope as ever, and lets nothing change, so that each form can be sent.
    jest.spyOn(door, 'refuseMissingScope').mockImplementation(async (...asked) => {
      await refuseMissingScope(...asked);
      if (!isSending || asked[2] === 'GET') return;
      calls += 1;
      throw new ProblemException(problems.notFound);
    });
  });

  /** @returns the actions of this form, and of that on the page that answers, which were refused */
  async function send(browser: Browser, { action, fields }: SentForm): Promise<string[]> {
    const handler = app.nest.get(RouteTable).find(action)?.routes.get('POST')?.name ?? action;
    const before = calls;
    isSending = !WITHOUT_SCOPE.includes(handler);
    const answer = await browser.send(action, fields);
    isSending = false;
    if (calls > before) sent.add(handler);
    if (isRefused(answer)) return [action];
    const refused: string[] = [];
    if (handler === 'choose') for (const form of listForms(answer.text)) refused.push(...(await send(browser, form)));
    return refused;
  }

  it.each(OPERATOR_SCOPES)('offers an operator with the scope %s nothing that this scope refuses', async (scope) => {
    const browser = await Browser.logIn(app, (await app.operator([scope])).key);
    const offered = await walk(browser);
    const refused = [...offered].filter(([, isWrong]) => isWrong).map(([address]) => address);
    for (const address of new Set([...offered.keys(), ...addresses])) {
      const { status, text } = await browser.get(address);
      for (const form of status === 200 ? listForms(text) : []) refused.push(...(await send(browser, form)));
    }
    expect(refused).toEqual([]);
  });

  it('was sent by these tests for each handler of a form that changes something', () => {
    const { routes } = app.nest.get(RouteTable);
    const handlers = routes.filter(({ path, method }) => path.startsWith('/console') && method === 'POST');
    expect([...sent].sort()).toEqual(
      [...new Set(handlers.map(({ name }) => name))].filter((name) => !WITHOUT_SCOPE.includes(name)).sort(),
    );
  });
});
