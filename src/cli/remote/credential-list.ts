import type { Command } from 'commander';
import { addDays } from '../../common/clock.js';
import { EXPIRY_NOTICE_DAYS, UNUSED_DAYS } from '../attention.js';
import type { Colour } from '../screen.js';
import { parseDuration } from './moments.js';

/** The fields of nodes and app credentials by which they are filtered and counted. */
export interface CredentialView {
  readonly created_at: string;
  readonly last_used_at: string | null;
  readonly expires_at: string | null;
  readonly revoked_at: string | null;
}

export interface ListFilters {
  readonly live: boolean;
  /** In milliseconds. */
  readonly unusedFor?: number;
}

export function addFilters(command: Command): Command {
  return command
    .option('--live', 'only live ones: neither revoked nor expired', false)
    .option('--unused-for <duration>', 'only ones that were not used for this long: 24h, 30d', parseDuration);
}

export function applyFilters<View extends CredentialView>(
  items: readonly View[],
  { live, unusedFor }: ListFilters,
  now = new Date(),
): View[] {
  return items.filter(
    (item) =>
      (!live || isLive(item, now)) &&
      (unusedFor === undefined || isUnusedSince(item, new Date(now.getTime() - unusedFor))),
  );
}

export function isLive({ revoked_at, expires_at }: CredentialView, now: Date): boolean {
  return revoked_at === null && (expires_at === null || new Date(expires_at) > now);
}

/** One that was never used counts from when it was made. */
export function isUnusedSince({ last_used_at, created_at }: CredentialView, since: Date): boolean {
  return new Date(last_used_at ?? created_at) < since;
}

export function isExpiringSoon({ expires_at }: CredentialView, now: Date): boolean {
  return expires_at !== null && new Date(expires_at) > now && new Date(expires_at) < addDays(now, EXPIRY_NOTICE_DAYS);
}

/** Counts for an overview: the live ones, and which of them need attention. */
export function countCredentials(items: readonly CredentialView[], now = new Date()) {
  const live = items.filter((item) => isLive(item, now));
  return {
    live: live.length,
    ended: items.length - live.length,
    unused: live.filter((item) => isUnusedSince(item, addDays(now, -UNUSED_DAYS))).length,
    expiring: live.filter((item) => isExpiringSoon(item, now)).length,
  };
}

export function toMomentColour(name: string, value: unknown): Colour | undefined {
  if (typeof value !== 'string') return undefined;
  if (name === 'revoked_at') return 'red';
  if (name !== 'expires_at') return undefined;
  if (new Date(value) <= new Date()) return 'red';
  return new Date(value) < addDays(new Date(), EXPIRY_NOTICE_DAYS) ? 'yellow' : undefined;
}
