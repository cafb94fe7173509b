import { metrics, type MeterProvider } from '@opentelemetry/api';
import { Verifier } from '../src/verifier.js';

type Observe = (result: { observe(value: number, attributes: object): void }) => void;

describe('with the SDK of OpenTelemetry started before', () => {
  const observers: Observe[] = [];

  beforeAll(() => {
    const counter = { addCallback: (observe: Observe) => void observers.push(observe) };
    const provider = { getMeter: () => ({ createObservableCounter: () => counter }) };
    metrics.setGlobalMeterProvider(provider as unknown as MeterProvider);
  });

  afterAll(() => metrics.disable());

  it('tells the verdicts of each door', async () => {
    const auth = Verifier.forTests();
    await auth.verifyNode({ headers: auth.issueNode().headers });
    const observed: unknown[] = [];
    for (const observe of observers)
      observe({ observe: (value, attributes) => void observed.push([value, attributes]) });
    expect(observed).toContainEqual([1, { door: 'node', verdict: 'accepted' }]);
    expect(observed).toContainEqual([0, { door: 'node', verdict: 'refused' }]);
  });
});
