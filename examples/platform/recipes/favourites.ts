// What recipes knows of users. It forgets a user whose account was deleted.
import { VerifierConfigurationError, type Verifier } from '@platform-auth/verifier';

const TIMEOUT_MS = 5_000;
/** The most users that one lookup is about. */
const MAX_IDS = 100;
const { AUTH_URL = '', AUTH_APP_ID = '', AUTH_APP_KEY = '' } = process.env;

/** The favourite recipes of each user, by id. */
export const favourites = new Map<string, Set<string>>();

/** An event that could not be handled comes again: after 1 s, which doubles to 60 s. */
export async function followDeletions(auth: Verifier): Promise<void> {
  for (;;) {
    try {
      await readEvents(auth);
      return;
    } catch (error) {
      if (error instanceof VerifierConfigurationError) throw error;
      console.error(error);
    }
  }
}

async function readEvents(auth: Verifier): Promise<void> {
  // After a reset nobody knows which events were missed, so all users are looked up.
  const onReset = (): Promise<void> => forgetDeleted([...favourites.keys()]);
  for await (const { subject } of auth.events({ onReset })) await forgetDeleted([subject.id]);
}

/** Looks before it deletes: an event is a reason to look, and an import may have brought the same id back. */
async function forgetDeleted(ids: readonly string[]): Promise<void> {
  for (let start = 0; start < ids.length; start += MAX_IDS) {
    const { users, missing } = await lookUp(ids.slice(start, start + MAX_IDS));
    for (const { id, is_active } of users) if (!is_active) console.log(`User ${id} is disabled: nothing is deleted.`);
    for (const id of missing) if (favourites.delete(id)) console.log(`Deleted the favourites of user ${id}.`);
  }
}

interface FoundUsers {
  readonly users: readonly { readonly id: string; readonly is_active: boolean }[];
  readonly missing: readonly string[];
}

async function lookUp(ids: readonly string[]): Promise<FoundUsers> {
  const own = { 'X-Platform-App-Id': AUTH_APP_ID, 'X-Platform-App-Key': AUTH_APP_KEY };
  const response = await fetch(`${AUTH_URL}/internal/users/lookup`, {
    method: 'POST',
    headers: { ...own, 'Content-Type': 'application/json' },
    body: JSON.stringify({ ids }),
    signal: AbortSignal.timeout(TIMEOUT_MS),
  });
  if (!response.ok) throw new Error(`auth answered ${response.status} to the lookup of users`);
  return (await response.json()) as FoundUsers;
}
