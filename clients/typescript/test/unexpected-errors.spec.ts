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
    const options = { url: 'http://auth.test', appId: 'own', appKey: 'own', serviceName: 'recipes', logger };
    failure = new ConnectionError('refused');
    verifier = new VerifierCore(toSettings(options), runtime);
  });

  afterAll(() => verifier.close());

  const findLogged = () => logged.filter(({ event }) => event === 'verifier_failed').map(({ fields }) => fields);

  it('is answered 503 and logged once for each class, without its message', async () => {
    for (const error of [new TypeError('pa_node_of-a-test'), new TypeError('again'), new RangeError('another')]) {
      failure = error;
      await expect(verifier.verifyNode(NODE)).rejects.toThrow(UnavailableError);
    }
    expect(findLogged()).toEqual([{ error: 'TypeError' }, { error: 'RangeError' }]);
    expect(JSON.stringify(logged)).not.toContain('pa_node_of-a-test');
  });

  it('is not an outage: a refused connection is not logged as one', async () => {
    const before = findLogged().length;
    failure = new ConnectionError('refused');
    await expect(verifier.verifyNode(NODE)).rejects.toThrow(UnavailableError);
    expect(findLogged()).toHaveLength(before);
  });
});
