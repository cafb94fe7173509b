import { eventually } from '../../../tools/eventually.js';
import { UnavailableError } from '../src/errors.js';
import { toSettings } from '../src/options.js';
import { createSystemRuntime } from '../src/runtime.js';
import { ConnectionError, type Transport } from '../src/transport.js';
import { VerifierCore } from '../src/verifier-core.js';

/** Never answers, and breaks requests in flight when it is closed, as connections do. */
class SilentTransport implements Transport {
  sent = 0;
  private breakAll = (): void => undefined;
  private readonly closed = new Promise<never>((_resolve, reject) => {
    this.breakAll = () => reject(new ConnectionError('closed'));
  });

  send(): Promise<never> {
    this.sent += 1;
    return this.closed;
  }

  close(): void {
    this.breakAll();
  }
}

describe('a verifier that is closed', () => {
  it('polls no more, logs nothing about the poll that it broke, and may be closed again', async () => {
    const transport = new SilentTransport();
    const logged: string[] = [];
    const logger = { warn: (event: string) => void logged.push(event) };
    const options = {
      url: 'http://auth.test',
      appId: '01985f4e-7c3a-7b52-9d1e-000000000c01',
      appKey: 'pa_app_own',
      serviceName: 'recipes',
      logger,
    };
    const verifier = new VerifierCore(toSettings(options), { ...createSystemRuntime(), transport });
    const asked = expect(verifier.verifyNode({ headers: { 'x-api-key': 'a:b' } })).rejects.toThrow(UnavailableError);
    await eventually('the question is sent', () => transport.sent === 2);
    verifier.close();
    verifier.close();
    await asked;
    // The question is repeated once; the poll is not.
    expect([transport.sent, logged]).toEqual([3, []]);
  });
});
