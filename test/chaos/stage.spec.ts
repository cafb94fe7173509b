import { runUntilStopped } from '../../chaos/stage.js';

const FAULT = new Error('The standby was not promoted.');
const GIVEN_UP = new Error('No request got a right answer.');

describe('a chaos scenario', () => {
  let stopped: number;
  const stop = (error?: Error) => (): Promise<void> => {
    stopped += 1;
    return error ? Promise.reject(error) : Promise.resolve();
  };
  const run = async (ofScenario?: Error, ofStop?: Error): Promise<unknown> => {
    const scenario = {
      name: 'standby promoted',
      run: () => (ofScenario ? Promise.reject(ofScenario) : Promise.resolve()),
    };
    return runUntilStopped(scenario, { stop: stop(ofStop) }).catch((error: unknown) => error);
  };

  beforeEach(() => {
    stopped = 0;
  });

  it('reports its own error before that of a load which could not stop either', async () => {
    expect(await run(FAULT, GIVEN_UP)).toMatchObject({ errors: [FAULT, GIVEN_UP] });
  });

  it('reports the only error as it is', async () => {
    expect(await run(FAULT)).toBe(FAULT);
    expect(await run(undefined, GIVEN_UP)).toBe(GIVEN_UP);
  });

  it('stops the load once, whether it failed or not', async () => {
    expect(await run()).toBeUndefined();
    expect(await run(FAULT)).toBe(FAULT);
    expect(stopped).toBe(2);
  });
});
