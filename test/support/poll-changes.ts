import { eventually } from '../../tools/eventually.js';
import type { Service, TestApp } from './test-app.js';

export interface Changes {
  readonly cursor: string;
  readonly reset: boolean;
  readonly lease_ms: number;
  readonly fresh_for_ms: number;
  readonly changes: { kind: string; id: string }[];
}

/** Polls as a verifier does. Repeats a 503, because on a slow machine a lease may have ended. */
export async function pollChanges(app: TestApp, { headers }: Service, cursor?: unknown): Promise<Changes> {
  let answer: Changes | undefined;
  await eventually('the replica holds a lease', async () => {
    const { status, body } = await app.post('/internal/changes', { cursor }).set(headers);
    expect([200, 503]).toContain(status);
    if (status === 200) answer = body as Changes;
    return status === 200;
  });
  return answer!;
}
