import { VerificationError } from '../src/errors.js';
import { toSettings } from '../src/options.js';
import { createSystemRuntime } from '../src/runtime.js';
import { ConnectionError, type ServiceAnswer, type ServiceRequest } from '../src/transport.js';
import { VerifierCore } from '../src/verifier-core.js';

const encode = (part: object): string => Buffer.from(JSON.stringify(part)).toString('base64url');
const TOKEN = `${encode({ alg: 'HS256', typ: 'JWT' })}.${encode({ sub: 'a-user', sid: 'a-session' })}.c2ln`;

describe('requests that wait for the same exchange', () => {
  const logged: string[] = [];
  let exchange: () => Promise<ServiceAnswer>;
  let exchanges: number;
  let verifier: VerifierCore;

  beforeEach(() => {
    exchanges = 0;
    logged.length = 0;
    const send = ({ url }: ServiceRequest): Promise<ServiceAnswer> => {
      if (!url.endsWith('/internal/token')) return Promise.reject(new ConnectionError('refused'));
      exchanges += 1;
      return exchange();
    };
    const runtime = { ...createSystemRuntime(), transport: { send, close: () => undefined } };
    const logger = { warn: (event: string) => void logged.push(event) };
    const own = { url: 'http://auth.test', appId: '01985f4e-7c3a-7b52-9d1e-000000000c01', appKey: 'pa_app_own' };
    verifier = new VerifierCore(toSettings({ ...own, serviceName: 'recipes', logger }), runtime);
  });

  afterEach(() => verifier.close());

  const ask = (id: string): Promise<unknown> =>
    verifier
      .tokenFor({ headers: { authorization: `Bearer ${TOKEN}`, 'x-request-id': id } }, 'ocr')
      .catch((error: unknown) => error);

  it.each([
    [
      'invalid_access_token',
      () => Promise.resolve({ status: 400, headers: {}, body: '{"code":"invalid_subject_token"}' }),
    ],
    ['unavailable', () => Promise.resolve({ status: 500, headers: {}, body: '' })],
    ['unavailable', () => Promise.reject(new RangeError('a mistake in the program'))],
  ])('are each answered %s with their own id', async (code, answer) => {
    exchange = answer;
    const errors = await Promise.all([ask('first'), ask('second')]);
    expect(exchanges).toBe(1);
    expect(errors.map((error) => (error as VerificationError).toResponse().body)).toMatchObject([
      { code, request_id: 'first' },
      { code, request_id: 'second' },
    ]);
  });

  it('have an unexpected error logged once', async () => {
    exchange = () => Promise.reject(new RangeError('a mistake in the program'));
    await Promise.all([ask('first'), ask('second')]);
    expect(logged.filter((event) => event === 'verifier_failed')).toHaveLength(1);
  });
});
