import { Command, Option } from 'commander';
import { addDays } from '../../common/clock.js';
import { EXPIRY_NOTICE_DAYS, UNUSED_DAYS } from '../attention.js';
import { print } from '../terminal.js';
import type { AppView } from './apps.command.js';
import { isExpiringSoon, isLive, isUnusedSince } from './credential-list.js';
import { DRAWINGS, type Call } from './map-drawing.js';
import { createClient, describeRemote, readOutput } from './remote-command.js';

type Format = keyof typeof DRAWINGS;

/** `platform-auth map`: who may call whom, drawn from the live app credentials. */
export function createMapCommand(): Command {
  return describeRemote(
    new Command('map'),
    `Draw which services call which: last used, not used for ${UNUSED_DAYS} days, expiring within ${EXPIRY_NOTICE_DAYS} days.`,
    'map --format svg > platform.svg',
  )
    .addOption(new Option('--format <format>', 'of the drawing').choices(Object.keys(DRAWINGS)).default('text'))
    .action(async ({ format }: { format: Format }, command: Command) => {
      const calls = toCalls(await createClient(command).list<AppView>('/app-credentials'));
      print(readOutput(command), { calls }, () => DRAWINGS[format](calls));
    });
}

/** Sorted by caller and target. */
export function toCalls(credentials: readonly AppView[], now = new Date()): Call[] {
  const live = credentials.filter((credential) => isLive(credential, now));
  const toKey = ({ caller, target }: Pick<Call, 'caller' | 'target'>): string => `${caller} ${target}`;
  return live.map((credential) => toCall(credential, now)).sort((left, right) => (toKey(left) < toKey(right) ? -1 : 1));
}

function toCall(credential: AppView, now: Date): Call {
  const { caller, target, last_used_at, expires_at } = credential;
  const used = last_used_at === null ? 'never used' : `last used ${last_used_at.slice(0, 10)}`;
  if (expires_at !== null && isExpiringSoon(credential, now)) {
    const label = `${used}, expires ${expires_at.slice(0, 10)}`;
    return { caller, target, last_used_at, expires_at, state: 'expiring', label };
  }
  const state = isUnusedSince(credential, addDays(now, -UNUSED_DAYS)) ? 'unused' : 'ok';
  return { caller, target, last_used_at, expires_at, state, label: used };
}
