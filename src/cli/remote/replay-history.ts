// What an exported audit log records that `replay` has to look at: the effects of its events on each subject, and the
// events that it can only list.
import { isDeepStrictEqual } from 'node:util';
import { isId } from '../../foundation/common/ids.js';
import { KEY_KINDS } from '../../foundation/common/key-kinds.js';
import { SERVICE_NAME_FORMAT } from '../../foundation/common/names.js';
import { HouseholdHistory } from './replay-households.js';
import type { ReplayedEvent } from './replay-plan.js';

/** @returns the path of the keys of each kind, by the event of an act */
function listKeyPaths(act: 'issued' | 'updated' | 'revoked'): Map<string, string> {
  return new Map(Object.values(KEY_KINDS).map(({ auditPrefix, path }) => [`${auditPrefix}.${act}`, path]));
}

export const REVOKED = listKeyPaths('revoked');
const UPDATED = listKeyPaths('updated');
export const USERS = '/users';
export const SUBSCRIPTIONS = '/event-subscriptions';
/** The paths of subjects by the event that made them. After a restore those made since the backup are gone. */
export const ISSUED: ReadonlyMap<string, string> = new Map([
  ...listKeyPaths('issued'),
  ['node.enrolled', KEY_KINDS.node.path],
  ['household.created', '/households'],
  ['user.registered', USERS],
  ['admin.user.created', USERS],
]);
const USER_DELETED = /^(admin\.)?user\.deleted$/;
/** Events that end sessions and do not count them in `ended_sessions`. */
const ENDS_SESSIONS = /^(session\.(ended|refresh\.reused)|admin\.user\.sessions_revoked|(admin\.)?user\.deleted)$/;
/** A restore brings back old keys, passwords, addresses and factors, which only an operator or their user can replace. */
const BY_HAND =
  /\.(rotated|rotation_finished|(totp|passkey)\.removed|factors_removed|replaced|recovery_code\.used)$|^user\.(password|email)\.(changed|reset)$|^signing_key\.|^admin\.event_subscription\.set$/;
/** The subject of these events is the name of a service. */
const SUBSCRIPTION = /^admin\.event_subscription\./;

interface KeyEnd {
  readonly time: number;
  readonly expiresAt: string | null;
}

/** The effects of the events, each with the last time at which it happened to a subject. Events may come in any order. */
export class History {
  private readonly times = new Map<string, Map<string, number>>();
  readonly byHand = new Map<string, Set<string>>();
  /** The event that made each subject. */
  readonly issued = new Map<string, string>();
  /** The last deletion of each user. */
  readonly deletions = new Map<string, ReplayedEvent>();
  /** The end that an operator last set, by the path of the key. */
  readonly keyEnds = new Map<string, KeyEnd>();
  readonly households = new HouseholdHistory();

  add(event: ReplayedEvent): void {
    const { event: name, subject, time, details } = event;
    // The subject becomes a part of a path, and the file is not trusted.
    if (subject === null || !(SUBSCRIPTION.test(name) ? SERVICE_NAME_FORMAT.isName(subject) : isId(subject))) return;
    for (const effect of listEffects(event)) {
      const times = this.times.get(effect) ?? new Map<string, number>();
      this.times.set(effect, times.set(subject, Math.max(time, this.findLastTime(effect, subject))));
    }
    this.households.add(event, subject);
    if (ISSUED.has(name)) this.issued.set(subject, name);
    const known = this.deletions.get(subject);
    if (USER_DELETED.test(name) && (!known || known.time <= time)) this.deletions.set(subject, event);
    this.addKeyEnd(event, subject);
    if (BY_HAND.test(name) || isAddressChanged(event) || areRightsChanged(event))
      this.addByHand(name, details.kid ?? subject);
  }

  private addKeyEnd({ event, time, details: { after } }: ReplayedEvent, subject: string): void {
    const base = UPDATED.get(event);
    if (base === undefined || after?.expires_at === undefined) return;
    const path = `${base}/${subject}`;
    const known = this.keyEnds.get(path);
    if (!known || known.time <= time) this.keyEnds.set(path, { time, expiresAt: after.expires_at });
  }

  addByHand(event: string, subject: string): void {
    this.byHand.set(event, (this.byHand.get(event) ?? new Set()).add(subject));
  }

  listSubjects(...effects: string[]): string[] {
    return [...new Set(effects.flatMap((effect) => [...(this.times.get(effect)?.keys() ?? [])]))];
  }

  findLastTime(effect: string, subject: string): number {
    return this.times.get(effect)?.get(subject) ?? -Infinity;
  }
}

/** An address that is another one, or no longer proven. */
function isAddressChanged({ event, details: { after } }: ReplayedEvent): boolean {
  return event === 'admin.user.updated' && (after?.email !== undefined || after?.email_verified === false);
}

function areRightsChanged({ event, details: { before, after } }: ReplayedEvent): boolean {
  const rights = ['scopes', 'targets', 'for_users'] as const;
  return UPDATED.has(event) && rights.some((name) => !isDeepStrictEqual(before?.[name], after?.[name]));
}

/** @returns the path of a revoked key's type, or what was done to an account or a subscription */
function listEffects({ event, details }: ReplayedEvent): string[] {
  const { is_active } = (event === 'admin.user.updated' && details.after) || {};
  const { ended_sessions: endedSessions = 0 } = details;
  const effects = [REVOKED.get(event)];
  if (is_active !== undefined) effects.push(is_active ? 'enable' : 'disable');
  if (endedSessions > 0 || ENDS_SESSIONS.test(event)) effects.push('end sessions');
  if (event === 'admin.event_subscription.removed') effects.push('unsubscribe');
  if (event === 'admin.event_subscription.set') effects.push('subscribe');
  return effects.filter((effect) => effect !== undefined);
}
