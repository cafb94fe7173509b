import { runInNewContext } from 'node:vm';
import { readToken } from '../src/credentials.js';
import type { PresentedRequest } from '../src/presented-request.js';
import { RefusedError, UnavailableError } from '../src/errors.js';
import { Verifier } from '../src/verifier.js';

/** V8 aborts the call after this time. A linear read takes milliseconds, a quadratic one hours. */
const PATIENCE_MS = 20_000;

type Fields = Readonly<Record<string, string>>;

/** `Headers` of another implementation. */
class OtherHeaders {
  constructor(private readonly fields: Fields) {}

  get(name: string): string | null {
    return Object.entries(this.fields).find(([key]) => key.toLowerCase() === name.toLowerCase())?.[1] ?? null;
  }
}

const changeNames = (fields: Fields, change: (name: string) => string): Fields =>
  Object.fromEntries(Object.entries(fields).map(([name, value]) => [change(name), value]));
const toLower = (fields: Fields): Fields => changeNames(fields, (name) => name.toLowerCase());
const toUpper = (fields: Fields): Fields => changeNames(fields, (name) => name.toUpperCase());

describe('the headers of a request', () => {
  const auth = Verifier.forTests({ serviceName: 'recipes' });
  const app = auth.issueApp();
  const node = auth.issueNode();
  const user = auth.issueUser();

  afterAll(() => auth.close());

  it.each<[string, (fields: Fields) => PresentedRequest['headers']]>([
    ['Headers', (fields) => new Headers(fields)],
    ['Headers of another implementation', (fields) => new OtherHeaders(fields)],
    ['a Map', (fields) => new Map(Object.entries(toLower(fields)))],
    ['a Map with names in capitals', (fields) => new Map(Object.entries(toUpper(fields)))],
    ['an object', toLower],
    ['an object with names in mixed case', (fields) => fields],
    ['an object with names in capitals', toUpper],
    [
      'an object of lists',
      (fields) => Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, [value]])),
    ],
    ['an object with a header of the name get', (fields) => ({ ...toLower(fields), get: 'x' })],
  ])('are read from %s', async (_form, toHeaders) => {
    expect(await auth.verifyApp({ headers: toHeaders(app.headers) })).toEqual(app.principal);
    expect(await auth.verifyNode({ headers: toHeaders(node.headers) })).toEqual(node.principal);
    expect(await auth.verifyUser({ headers: toHeaders(user.headers) })).toEqual(user.principal);
    await expect(auth.verifyNode({ headers: toHeaders({ Accept: '*/*' }) })).rejects.toThrow(RefusedError);
  });

  it('are read in time that grows with their length only, also when a token is lost among blanks', () => {
    const authorization = `Bearer ${' '.repeat(1_000_000)}a b`;
    const read = (): unknown => readToken({ headers: { authorization } });
    expect(() => void runInNewContext('read()', { read }, { timeout: PATIENCE_MS })).toThrow(RefusedError);
  });

  it('may hold ids in capitals, which are compared and handed over in lower case', async () => {
    const capitals = auth.issueNode({ householdId: 'H-1' });
    const [id = '', key = ''] = capitals.headers['X-API-Key']!.split(':');
    const found = await auth.verifyNode({ headers: { 'x-api-key': `${id.toUpperCase()}:${key}` } });
    expect([found, found.householdId]).toEqual([capitals.principal, 'h-1']);
    const headers = { ...app.headers, 'X-Platform-App-Id': app.principal.appId.toUpperCase() };
    expect(await auth.verifyApp({ headers })).toEqual(app.principal);
    const alice = auth.issueUser({ userId: 'ALICE' });
    expect(await auth.verifyUser({ headers: alice.headers })).toEqual(alice.principal);
  });

  it('may hold other headers of any type', async () => {
    const headers = {
      ...node.headers,
      'X-Request-Id': 7,
      traceparent: [null],
    } as unknown as PresentedRequest['headers'];
    expect(await auth.verifyNode({ headers })).toEqual(node.principal);
  });

  it.each<[string, (key: string) => PresentedRequest]>([
    ['a list of an object', (key) => ({ headers: { 'x-api-key': [key, key] } })],
    ['two spellings in an object', (key) => ({ headers: { 'x-api-key': key, 'X-API-Key': key } })],
    [
      'two spellings in a Map',
      (key) => ({
        headers: new Map([
          ['x-api-key', key],
          ['X-API-Key', key],
        ]),
      }),
    ],
    ['the raw headers', (key) => ({ headers: { 'x-api-key': key }, rawHeaders: ['X-API-Key', key, 'x-api-key', key] })],
  ])('are refused with 400 when the credential is there twice: %s', async (_form, toRequest) => {
    const refused = auth.verifyNode(toRequest(node.headers['X-API-Key']!));
    await expect(refused).rejects.toMatchObject({ name: 'RefusedError', status: 400, code: 'duplicate_header' });
  });

  it.each<[string, unknown]>([
    ['null', { headers: null }],
    ['null beside raw headers', { headers: null, rawHeaders: [] }],
    ['the headers in place of the request', new Headers(node.headers)],
    ['a list', { headers: Object.entries(node.headers) }],
    ['a text', { headers: 'X-API-Key: a:b' }],
    ['a value that is not a text', { headers: { 'x-api-key': 7 } }],
    ['bytes', { headers: { 'x-api-key': Buffer.from('a:b') } }],
  ])('that cannot be read give no verdict but an error that says so: %s', async (_form, request) => {
    const error: unknown = await auth.verifyNode(request as PresentedRequest).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(UnavailableError);
    expect((error as Error).cause).toMatchObject({
      message: expect.stringContaining('headers of the request') as string,
    });
  });
});
