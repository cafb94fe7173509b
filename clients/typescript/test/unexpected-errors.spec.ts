import { UnavailableError } from '../src/errors.js';
import { toSettings } from '../src/options.js';
import { createSystemRuntime } from '../src/runtime.js';
import { ConnectionError } from '../src/transport.js';
import { VerifierCore } from '../src/verifier-core.js';

const NODE = { headers: { 'x-api-key': 'node:pa_node_of-a-test' } };

describe('an unexpected error', () => {
  const logged: { readonly event: string; readonly fields: unknown }[] = [];
  let failure: Error;
  let verifier: VerifierCore;

  beforeAll(() => {
    const send = () => Promise.reject(failure);
    const runtime = { ...createSystemRuntime(), transport: { send, close: () => undefined } };
    const logger = { warn: (event: string, fields: unknown) => void logged.push({ event, fields }) };
    const options = {
      url: 'http://auth.test',
      appId: '01985f4e-7c3a-7b52-9d1e-000000000c01',
      appKey: 'pa_app_own',
      serviceName: 'recipes',
      logger,
    };
    failure = new ConnectionError('refused');
    verifier = new VerifierCore(toSettings(options), runtime);
  });

  afterAll(() => verifier.close());

  const findLogged = () => logged.filter(({ event }) => event === 'verifier_failed').map(({ fields }) => fields);

  it('is answered 503 and logged once for each class and place, with its message and without secrets', async () => {
    const present = async (error: Error): Promise<void> => {
      failure = error;
      await expect(verifier.verifyNode(NODE)).rejects.toThrow(UnavailableError);
    };
    await present(new TypeError('x is undefined, of node:pa_node_of-a-test with eyJhbGciOiJIUzI1NiJ9.e30.x'));
    for (let i = 0; i < 2; i += 1) await present(new RangeError(`a\nlength of ${'secret-'.repeat(9)}`));
    const where = expect.stringMatching(/^test\/unexpected-errors\.spec\.[jt]s:\d+$/);
    expect(findLogged()).toEqual([
      { service: 'recipes', error: 'TypeError', detail: 'x is undefined, of [redacted] with [redacted]', where },
      { service: 'recipes', error: 'RangeError', detail: 'a length of [redacted]', where },
    ]);
  });

  it('is not an outage: a refused connection is not logged as one', async () => {
    const before = findLogged().length;
    failure = new ConnectionError('refused');
    await expect(verifier.verifyNode(NODE)).rejects.toThrow(UnavailableError);
    expect(findLogged()).toHaveLength(before);
  });
});
