// A service that reads events, over `node:http`: `fetch` takes twice the processor time, from the service beside it.
import { once } from 'node:events';
import { request, type IncomingMessage } from 'node:http';
import { json } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import type { ReaderKey } from './work-messages.js';

/** As many as a verifier asks for. */
const LIMIT = 250;
const WAIT_SECONDS = 20;

const answer = z.object({ events: z.array(z.object({ cursor: z.string() })), reset: z.boolean() });

class ReaderResetError extends Error {}

export class EventReader {
  constructor(readonly own: ReaderKey) {}

  /** Polls until the signal, and acknowledges what it read. @returns the number of events */
  async follow(signal: AbortSignal): Promise<number> {
    let count = 0;
    let after: string | undefined;
    while (!signal.aborted) {
      // Pauses after a 503, as a verifier does.
      const events = await this.poll({ after, wait_seconds: WAIT_SECONDS }, signal).catch((error: unknown) => {
        if (error instanceof ReaderResetError) throw error;
        return sleep(1_000);
      });
      count += events?.length ?? 0;
      after = events?.at(-1) ?? after;
    }
    return count;
  }

  /** @returns the cursors of the events */
  async poll(body: { readonly after?: string | undefined; wait_seconds?: number }, signal?: AbortSignal) {
    const sent = request(`${this.own.url}/internal/events`, {
      method: 'POST',
      headers: {
        'X-Platform-App-Id': this.own.appId,
        'X-Platform-App-Key': this.own.appKey,
        'Content-Type': 'application/json',
      },
      ...(signal && { signal }),
    }).end(JSON.stringify({ consumer: 'bench', limit: LIMIT, ...body }));
    const [response] = (await once(sent, 'response')) as [IncomingMessage];
    const content = await json(response);
    if (response.statusCode !== 200) throw new Error(`/internal/events answered ${response.statusCode}`);
    const { events, reset } = answer.parse(content);
    if (reset) throw new ReaderResetError(`${this.own.serviceName} was reset`);
    return events.map(({ cursor }) => cursor);
  }
}
