import { eventually } from '../../tools/eventually.js';
import { Load, type Actor, type LoadOptions, type LoadSetting } from '../load.js';
import type { VerifierProcess } from '../verifiers/verifier-process.js';
import { keyKinds } from './key-kinds.js';
import { liveKey } from './key-life.js';
import { liveUser } from './user-life.js';
import { verifyKey, watchVerifier } from './verifiers.js';
import { makeKept, watchKeys, watchLogins, watchRevoked, watchSessions } from './watchers.js';

const ACTORS: readonly Actor[] = [
  ...Array.from({ length: 3 }, () => (load: Load) => liveKey(load, keyKinds.node)),
  ...Array.from({ length: 3 }, () => (load: Load) => liveKey(load, keyKinds.app)),
  ...Array.from({ length: 6 }, () => liveUser),
  ...[watchKeys, watchKeys, watchSessions, watchSessions, watchLogins, watchLogins],
  watchRevoked,
];

/** Makes the credentials that no actor ends, waits for the verifiers, and lets all actors begin. */
export async function startLoad(setting: LoadSetting, options: LoadOptions): Promise<Load> {
  const load = new Load(setting, options);
  load.kept = await makeKept(load);
  await Promise.all(load.verifiers.map((verifier) => awaitStart(load, verifier)));
  load.begin([...ACTORS, ...load.verifiers.map(watchVerifier)]);
  return load;
}

/** Resolves when a verifier has started. */
async function awaitStart(load: Load, verifier: VerifierProcess): Promise<void> {
  const { credentials } = load.kept;
  const accepts = async (): Promise<boolean> =>
    (await Promise.all(credentials.map((one) => verifyKey(load, verifier, one)))).every((verdict) => verdict === true);
  await eventually(`the ${verifier.name} verifier accepts a key`, accepts);
}
