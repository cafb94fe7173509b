import { LABEL, leakOfAnswer, LogWatch, SECRET } from '../../fuzz/canaries.js';
import { ApiDocument } from '../../fuzz/document.js';
import { Judge, type Intent } from '../../fuzz/judge.js';

const problem = (status: number, code: string) =>
  JSON.stringify({ type: 't', title: 't', status, detail: 'd', instance: 'i', code, request_id: 'r' });
const text = { type: 'string' };
const problemContent = { 'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } } };
const DOCUMENT = {
  paths: {
    '/things/{id}': {
      post: {
        parameters: [{ name: 'limit', in: 'query', schema: { type: 'integer' } }],
        requestBody: {
          required: true,
          content: { 'application/json': { schema: { $ref: '#/components/schemas/Thing' } } },
        },
        security: [{ admin: [] }],
        responses: {
          200: { content: { 'application/json': { schema: { $ref: '#/components/schemas/Thing' } } } },
          401: { content: problemContent },
        },
      },
    },
    '/internal/authorize/door': {
      get: {
        security: [{ admin: [] }],
        responses: { 200: {}, 401: { content: problemContent }, 503: { content: problemContent } },
      },
    },
    '/internal/introspect': {
      post: {
        requestBody: {
          required: true,
          content: { 'application/x-www-form-urlencoded': { schema: { $ref: '#/components/schemas/Thing' } } },
        },
        responses: { 200: { content: { 'application/json': { schema: { type: 'object' } } } } },
      },
    },
    '/internal/changes': {
      post: {
        requestBody: { content: { 'application/json': { schema: { $ref: '#/components/schemas/Poll' } } } },
        responses: { 200: { content: { 'application/json': { schema: { type: 'object' } } } } },
      },
    },
    '/internal/check': {
      post: { responses: { 200: { content: { 'application/json': { schema: { type: 'object' } } } } } },
    },
  },
  components: {
    schemas: {
      Poll: {
        type: 'object',
        properties: { cursor: text, used: { type: 'array', items: { $ref: '#/components/schemas/Thing' } } },
      },
      Thing: { type: 'object', required: ['name'], properties: { name: text } },
      Problem: {
        type: 'object',
        required: ['type', 'title', 'status', 'detail', 'instance', 'code', 'request_id'],
        properties: { code: { type: 'string', pattern: '^[a-z_]+$' }, status: { type: 'integer' } },
      },
    },
  },
};

interface Exchange {
  readonly target?: string;
  readonly method?: string;
  readonly verdict?: Intent['credentials']['verdict'];
  readonly sent?: string;
  readonly status?: number;
  readonly type?: string;
  readonly headers?: Record<string, string>;
  readonly body?: string;
}

/** A judge that overlooks faults makes every service look correct. */
describe('the judge of the fuzzer', () => {
  const verdictOn = (exchange: Exchange): string | undefined => {
    const { target = '/things/1', method = 'POST', verdict = 'good', sent = '{"name":"a"}', status = 200 } = exchange;
    const { type = status < 400 ? 'application/json' : 'application/problem+json', headers = {} } = exchange;
    const body = exchange.body ?? (status < 400 ? '{"name":"a"}' : problem(status, 'a_code'));
    const wire = { method, target, headers: [], body: Buffer.from(sent), chunked: false };
    const judge = new Judge(new ApiDocument(DOCUMENT));
    const answer = { status, headers: { 'content-type': type, 'www-authenticate': 'x', ...headers }, body };
    return judge.verdict({ credentials: { verdict } }, { wire, text: sent }, answer);
  };

  it('accepts documented responses', () => {
    expect(verdictOn({})).toBeUndefined();
    expect(verdictOn({ target: '/things/1?limit=2' })).toBeUndefined();
    expect(verdictOn({ status: 401 })).toBeUndefined();
    expect(verdictOn({ status: 404, target: '/nowhere' })).toBeUndefined();
    const options = { method: 'OPTIONS', status: 204, headers: { allow: 'GET, OPTIONS' }, body: '' };
    expect(verdictOn({ ...options, target: '/?__proto__=x' })).toBeUndefined();
  });

  it.each<[string, Exchange, RegExp]>([
    ['a failure', { status: 500 }, /failed: 500/],
    [
      'a 503 that does not come from a full hashing queue',
      { status: 503, headers: { 'retry-after': '1' } },
      /failed: 503/,
    ],
    ['a status that is not documented', { status: 409 }, /409 is not documented/],
    ['a success that differs from its schema', { body: '{}' }, /differs from its schema/],
    ['a success of another type', { type: 'text/html' }, /undocumented body of type text\/html/],
    ['a success where there is nothing', { target: '/nowhere' }, /no operation/],
    ['a path in another case that passed', { target: '/THINGS/1' }, /no operation/],
    ['a path with a slash behind it that passed', { target: '/things/1/' }, /no operation/],
    ['an error that is not a problem', { status: 404, type: 'text/html' }, /not application\/problem\+json/],
    ['a problem without a code', { status: 400, body: '{"status":400}' }, /not the documented problem/],
    ['a problem that says another status', { status: 400, body: problem(404, 'x') }, /says 404/],
    ['bad credentials that passed', { verdict: 'bad' }, /accepted bad credentials/],
    ['no credentials that passed', { verdict: 'none' }, /accepted none credentials/],
    ['a missing field that passed', { sent: '{}' }, /required property/],
    ['an unknown field that passed', { sent: '{"name":"a","role":1}' }, /additional properties/],
    ['invalid JSON that was accepted', { sent: '{"name":"a"' }, /it is not JSON/],
    ['ill-formed Unicode that passed', { sent: '{"name":"\\ud800"}' }, /not valid Unicode/],
    ['an unknown parameter that passed', { target: '/things/1?x=1' }, /parameter is unknown/],
    ['a bad parameter that passed', { target: '/things/1?limit=x' }, /limit .*integer/],
    ['a query on an internal route that passed', { target: '/internal/check?x=1', sent: '' }, /parameter is unknown/],
    ['a prototype that passed', { target: '/things/1?__proto__=x' }, /prototype/],
    ['a secret in an answer', { body: `{"name":"${SECRET}"}` }, /shows a secret/],
  ])('reports %s', (_name, exchange, reason) => {
    expect(verdictOn(exchange)).toMatch(reason);
  });

  const gateway = { target: '/internal/authorize/door/anything?a=b&__proto__=1', body: '' };

  it('accepts any method, path below, query and body for a gateway, and its misconfiguration', () => {
    expect(verdictOn({ ...gateway, method: 'PUT', sent: '{' })).toBeUndefined();
    expect(verdictOn({ ...gateway, status: 503, body: problem(503, 'gateway_misconfigured') })).toBeUndefined();
    expect(verdictOn({ status: 503, body: problem(503, 'gateway_misconfigured') })).toMatch(/failed: 503/);
    expect(verdictOn({ ...gateway, verdict: 'bad' })).toMatch(/accepted bad credentials/);
    expect(verdictOn({ ...gateway, target: '/internal/authorize/doors' })).toMatch(/no operation/);
  });

  it('accepts forms by their schema', () => {
    const form = { target: '/internal/introspect', body: '{}' };
    expect(verdictOn({ ...form, sent: 'name=a&other=b' })).toBeUndefined();
    expect(verdictOn({ ...form, sent: 'other=b' })).toMatch(/required property/);
  });

  it('accepts any cursor of the feed, but no other field of another type', () => {
    const poll = { target: '/internal/changes', body: '{}' };
    expect(verdictOn({ ...poll, sent: '{"cursor":[],"used":[{"name":"a"}]}' })).toBeUndefined();
    expect(verdictOn({ ...poll, sent: '{"used":{}}' })).toMatch(/used must be array/);
    expect(verdictOn({ ...poll, sent: '{"used":[{}]}' })).toMatch(/required property/);
  });

  it('accepts a full hashing queue only on routes that document it', () => {
    const busy = { status: 503, body: problem(503, 'hashing_busy'), headers: { 'retry-after': '2' } };
    expect(verdictOn(busy)).toMatch(/failed: 503/);
  });

  it('accepts labels in a response, but not in an error', () => {
    expect(leakOfAnswer(200, LABEL.toLowerCase())).toBeUndefined();
    expect(leakOfAnswer(400, LABEL.toLowerCase())).toMatch(/repeats/);
    expect(leakOfAnswer(200, '$2b$04$abc')).toMatch(/hash/);
  });

  it.each([
    ['a canary', `{"a":"${SECRET}"}`],
    ['a label', `{"a":"${LABEL.toLowerCase()}@x"}`],
    ['a key', '{"a":"pa_node_x"}'],
    ['a secret of the configuration', '{"a":"of-the-configuration"}'],
    ['an escape code', '{"a":"\u001b[2J"}'],
    ['a line that is not JSON', 'Error: oops'],
  ])('reports %s in the log', (_name, line) => {
    const watch = new LogWatch(['of-the-configuration']);
    watch.read('{"msg":"harmless"}');
    expect(watch.leaks).toEqual([]);
    watch.read(line);
    expect(watch.leaks).toHaveLength(1);
  });
});
