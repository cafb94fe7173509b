import { EVENT_TYPES, EVENT_MAPPINGS, toEvents } from '../../../src/domain/events/event-types.js';
import { AUDIT_EVENT_NAMES } from '../../../src/foundation/common/security-events.js';

const toTypes = (event: string, details: Record<string, unknown> = {}, count = 1): string[] =>
  toEvents({ event, details, count }).map(({ type }) => type);

describe('the types of events', () => {
  it('are decided for each event of the audit log: some types, or none', () => {
    expect(Object.keys(EVENT_MAPPINGS).sort()).toEqual([...AUDIT_EVENT_NAMES].sort());
  });

  it('are each told by some act', () => {
    const member = { user_id: 'alice' };
    const isActive = (before: boolean, after: boolean) => ({
      before: { is_active: before },
      after: { is_active: after },
    });
    const told = [
      ...AUDIT_EVENT_NAMES.flatMap((name) => toTypes(name, member)),
      ...toTypes('admin.user.updated', isActive(true, false)),
      ...toTypes('admin.user.updated', isActive(false, true)),
    ];
    expect([...new Set(told)].sort()).toEqual([...EVENT_TYPES].sort());
  });

  it.each([
    [
      'disables',
      { before: { is_active: true }, after: { is_active: false }, ended_sessions: 2 },
      ['user.disabled', 'session.ended'],
    ],
    ['enables', { before: { is_active: false }, after: { is_active: true }, ended_sessions: 0 }, ['user.enabled']],
    ['moves', { before: { is_active: true }, after: { is_active: true, email: 'another' } }, ['user.email_changed']],
    [
      'verifies',
      { before: { is_active: true, email_verified: false }, after: { is_active: true, email_verified: true } },
      [],
    ],
  ])('compare what an operator who %s a user changed', (_act, details, types) => {
    expect(toTypes('admin.user.updated', details)).toEqual(types);
  });

  it.each([
    ['admin.app_credential.revoked', { before: { revoked_at: null }, after: { revoked_at: 'now' } }, 'app.revoked'],
    [
      'admin.node.revoked',
      { before: { revoked_at: null, room: 'hall' }, after: { revoked_at: 'now' } },
      'node.revoked',
    ],
    ['household.deleted', { before: { name: 'home' } }, 'household.deleted'],
  ])('tell no more than the subject of %s', (event, details, type) => {
    expect(toEvents({ event, details, count: 1 })).toEqual([{ type, data: {} }]);
  });

  it.each(['user.deleted', 'admin.user.deleted'])('tell how many sessions %s ended, if any', (event) => {
    const tell = (count: number) =>
      toEvents({ event, details: { before: { email: 'gone' }, ended_sessions: count }, count: 1 });
    const deleted = { type: 'user.deleted', data: {} };
    expect(tell(2)).toEqual([deleted, { type: 'session.ended', data: { reason: 'deleted', count: 2 } }]);
    expect(tell(0)).toEqual([deleted]);
  });

  it('have at most one event for each row, so that its id and the type identify the event', () => {
    for (const name of AUDIT_EVENT_NAMES) {
      const types = toTypes(name, { user_id: 'alice', ended_sessions: 1 });
      expect(types).toEqual([...new Set(types)]);
    }
  });
});
