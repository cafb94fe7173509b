import { readErrorCode, sendRequest } from '../http-client.js';
import { describeCause } from '../failures.js';
import { OWN_NAME, type PlatformMap } from './platform-map.js';

const TIMEOUT_MS = 5_000;

/** What the address of a service in the map answered. */
export interface RunningService {
  readonly name: string;
  readonly url: string;
  /** Null: it does not answer. */
  readonly status: number | null;
  readonly error?: string;
}

/** Asks at the address of each other service, at once. None gets a credential: another program may listen there. */
export function askServices({ services }: PlatformMap): Promise<RunningService[]> {
  const others = services.filter(({ name }) => name !== OWN_NAME);
  return Promise.all(
    others.map(async ({ name, url }) => {
      try {
        const { status, body } = await sendRequest(url, { timeoutMs: TIMEOUT_MS });
        await body?.cancel();
        return { name, url, status };
      } catch (error) {
        return { name, url, status: null, error: readErrorCode(error) || describeCause(error) };
      }
    }),
  );
}

/** A service other than this one has no route that tells who it is: doctor says so instead of guessing. */
export function formatRunning(running: readonly RunningService[]): string {
  const lines = running.map(({ name, url, status, error = '' }) =>
    status === null
      ? `  ${name} does not answer at ${url}: ${error}. Start it, or correct the map.`
      : `  ${name}: ${url} answers ${status}. Whether it is ${name}, and has read ${name}.env, doctor cannot know.`,
  );
  const advice = 'When each last used its key: platform-auth apps list. A SERVICE_NAME that is not its own: its log.';
  return ['Running services:', ...lines, advice].join('\n');
}
