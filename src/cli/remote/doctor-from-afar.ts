import { formatPair } from '../credential-state.js';
import { broken, checkKeys, checkNodes, findServiceAway, type Finding } from '../platform/doctor-calls.js';
import { leaveLostKeys, makePlan } from '../platform/plan.js';
import type { PlatformMap } from '../platform/platform-map.js';
import { openDocuments } from '../platform/secret-documents.js';
import { announceIfSlow } from '../terminal.js';
import type { AdminClient } from './admin-client.js';
import { readLive } from './apply.js';

/** Checks the running service against the map. Neither files nor the database are looked at, and no key is used. */
export async function diagnoseFromAfar(
  client: AdminClient,
  { map, adminKey }: { map: PlatformMap; adminKey: string | undefined },
  now = new Date(),
): Promise<Finding[]> {
  const away = await findServiceAway(client.url);
  if (away) return [away];
  const none = openDocuments(map, { format: 'json', folder: undefined, current: undefined });
  const live = await announceIfSlow('Reading the credentials', readLive(client, none));
  const plan = leaveLostKeys(
    makePlan(map, none, live, () => ({})),
    undefined,
  );
  const missing = plan.services.flatMap(({ pairs }) => pairs.filter(({ action }) => action === 'issue'));
  return [
    ...missing.map((pair) =>
      broken(formatPair(pair), 'It has no live credential.', `Run apply, then restart ${pair.caller}.`),
    ),
    ...(await checkNodes(client.url, adminKey, plan)),
    ...checkKeys(plan, live.items, now, 'apply'),
  ];
}
