import type { PresentedRequest } from '../src/presented-request.js';
import { RefusedError, UnavailableError } from '../src/errors.js';
import { Verifier } from '../src/verifier.js';

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
  const app = auth.mintApp();
  const node = auth.mintNode();
  const user = auth.mintUser();

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
