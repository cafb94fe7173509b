import { z } from 'zod';
import type { Finding } from './doctor.checkup.js';
import { OWN_NAME } from './platform-map.js';
import { readErrorCode, sendRequest } from '../service-call.js';
import { describeCause } from '../system-errors.js';

export const SERVICE_TIMEOUT_MS = 5_000;
export const READ_LOG = `Read the log of ${OWN_NAME}, and run doctor again.`;
const NOT_TRIED = 'No credential was tried.';
const health = z.object({ details: z.object({ database: z.object({ status: z.string() }) }) });

/** @returns undefined when the service is ready */
export async function findServiceAway(url: string): Promise<Finding | undefined> {
  try {
    const response = await sendRequest(`${url}/health`, { timeoutMs: SERVICE_TIMEOUT_MS });
    const body: unknown = await response.json().catch(() => undefined);
    if (response.status === 200) return undefined;
    return { severity: 'broken', where: url, ...describeHealth(response.status, body) };
  } catch (error) {
    const what = `${OWN_NAME} does not answer: ${describeError(error)}.`;
    const remedy = `Start ${OWN_NAME}, or name its address with --url. ${NOT_TRIED}`;
    return { severity: 'broken', where: url, what, do: remedy };
  }
}

/** A response that is not 200: the service runs, unless another program has its address. */
function describeHealth(status: number, body: unknown): Pick<Finding, 'what' | 'do'> {
  const { data } = health.safeParse(body);
  if (!data) {
    const remedy = `Is this the address of ${OWN_NAME}? Name it with --url, or read the log of what answers there. ${NOT_TRIED}`;
    return { what: `/health answers ${status}, not as ${OWN_NAME} does.`, do: remedy };
  }
  if (data.details.database.status === 'up')
    return { what: `/health answers ${status}.`, do: `${READ_LOG} ${NOT_TRIED}` };
  const what = `/health answers ${status}: ${OWN_NAME} runs, and cannot use its database.`;
  return { what, do: `Start its database, or read the log of ${OWN_NAME} for the cause. ${NOT_TRIED}` };
}

export function describeError(error: unknown): string {
  return readErrorCode(error) || describeCause(error);
}
