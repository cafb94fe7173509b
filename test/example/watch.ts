import { eventually } from '../../tools/eventually.js';

const CALLERS = 4;
const MIN_CALLS_AFTER = 40;

export type Verdict = 'accepted' | 'refused' | `strange: ${string}`;

interface Call {
  readonly startedAt: number;
  readonly endedAt: number;
  readonly verdict: Verdict;
}

/**
 * Calls all the time while a credential is revoked.
 * @throws when a call is refused before the revoking command was started, or not refused after it has returned
 */
export async function watchRevocation(call: () => Promise<Verdict>, revoke: () => Promise<unknown>): Promise<void> {
  const calls: Call[] = [];
  let isOver = false;
  const callers = Array.from({ length: CALLERS }, async () => {
    while (!isOver) {
      const startedAt = performance.now();
      const verdict = await call();
      calls.push({ startedAt, endedAt: performance.now(), verdict });
    }
  });
  try {
    await eventually('calls are answered', () => calls.length >= CALLERS);
    const startedAt = performance.now();
    await revoke();
    const revokedAt = performance.now();
    const after = (): Call[] => calls.filter((each) => each.startedAt > revokedAt);
    await eventually('calls are answered after it', () => after().length >= MIN_CALLS_AFTER);
    expectAll(
      calls.filter(({ endedAt }) => endedAt < startedAt),
      'accepted',
      'before it was revoked',
    );
    expectAll(after(), 'refused', 'after the command had returned');
    expectAll(
      calls.filter(({ verdict }) => verdict !== 'refused'),
      'accepted',
      'meanwhile',
    );
  } finally {
    isOver = true;
    await Promise.allSettled(callers);
  }
}

function expectAll(calls: readonly Call[], expected: Verdict, when: string): void {
  const others = calls.filter(({ verdict }) => verdict !== expected);
  if (others.length === 0) return;
  const found = [...new Set(others.map(({ verdict }) => verdict))].join(', ');
  throw new Error(`${others.length} of ${calls.length} calls ${when} were not ${expected} but ${found}`);
}
