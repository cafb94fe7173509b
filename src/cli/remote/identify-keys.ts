import * as z from 'zod';
import type { IdentifiedKeysResponse } from '../../api/admin/identify.admin.controller.js';
import { MAX_DIGESTS } from '../../foundation/config/limits.js';
import type { AdminClient } from './admin-client.js';

const identified = z.object({ items: z.array(z.object({ digest: z.string() })), searched: z.array(z.string()) });

export type KnownKey = IdentifiedKeysResponse['items'][number];

export interface IdentifiedKeys {
  /** By digest. */
  readonly items: ReadonlyMap<string, KnownKey>;
  /** The kinds that the operator may be told of. */
  readonly searched: readonly string[];
}

/** Asks the service whose keys these are, in batches. */
export async function identifyKeys(client: AdminClient, found: readonly string[]): Promise<IdentifiedKeys> {
  const digests = [...new Set(found)];
  const items = new Map<string, KnownKey>();
  let searched: readonly string[] = [];
  for (let start = 0; start < digests.length; start += MAX_DIGESTS) {
    const body = { digests: digests.slice(start, start + MAX_DIGESTS) };
    const answer = await client.post<IdentifiedKeysResponse>('/keys/identify', body);
    client.requireShape(identified, answer);
    for (const item of answer.items) items.set(item.digest, item);
    searched = answer.searched;
  }
  return { items, searched };
}
