import { IS_NIGHTLY } from '../../tools/nightly.js';

/** Makes this many calls at the same time. */
export async function atOnce<Answer>(count: number, call: (index: number) => PromiseLike<Answer>): Promise<Answer[]> {
  return Promise.all(Array.from({ length: count }, (_, index) => call(index)));
}

export const ROUNDS = IS_NIGHTLY ? 50 : 10;
/** Rounds run together, because they mostly wait for leases. */
const AT_ONCE = 5;

/** Runs a race often enough that its participants meet in each order. The rounds share no session. */
export async function repeatRace(race: () => Promise<void>): Promise<void> {
  for (let round = 0; round < ROUNDS; round += AT_ONCE) await Promise.all(Array.from({ length: AT_ONCE }, race));
}

type Method = (...parameters: unknown[]) => Promise<unknown>;

/** Interleaves two calls: runs an act after the next call of a method has its result, and before the caller gets it. */
export function afterNext<Service extends object>(
  service: Service,
  name: keyof Service & string,
  act: () => Promise<unknown>,
): void {
  const methods = service as Record<string, Method>;
  const method = methods[name]!.bind(service);
  jest.spyOn(methods, name).mockImplementationOnce(async (...parameters) => {
    const result = await method(...parameters);
    await act();
    return result;
  });
}
