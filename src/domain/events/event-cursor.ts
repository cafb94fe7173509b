// The position of a service in the events, as text that the service hands back. It names the history that it belongs
// to, because a restored database tells another one under the same numbers.

/** The present history of the database: system identifier, timeline, and epoch of the audit log. */
export const ORIGIN = `concat_ws('-', (SELECT system_identifier FROM pg_control_system()),
  left(pg_walfile_name(pg_current_wal_insert_lsn()), 8), (SELECT epoch FROM audit_settings))`;

/** The part of a seal's MAC that a cursor holds, in SQL over `audit_seals`. */
export const SEAL_MARK = `encode(substr(audit_seals.mac, 1, 16), 'hex')`;

/** Greater than the number of any event: the end of a seal. */
export const END_OF_SEAL = 2_147_483_647;

export const MAX_EVENT_CURSOR_LENGTH = 200;

export interface EventPosition {
  readonly seal: number;
  readonly number: number;
}

export interface EventCursor extends EventPosition {
  readonly generation: number;
  /** Of a reset: what lies before it was not delivered, so taking the cursor acknowledges nothing. */
  readonly isReset: boolean;
  /** {@link SEAL_MARK} of the seal; empty before the first seal. */
  readonly mark: string;
  readonly origin: string;
}

const FORM = /^(\d{1,15})\.(\d{1,10})\.(\d{1,10})(r?)\.([0-9a-f]{32})?\.([0-9A-F-]{1,64})$/;

export function formatEventCursor({ seal, number, generation, isReset, mark, origin }: EventCursor): string {
  return `${seal}.${number}.${generation}${isReset ? 'r' : ''}.${mark}.${origin}`;
}

/** @returns undefined for a text that this service did not make */
export function parseEventCursor(text: string): EventCursor | undefined {
  const [, seal, number, generation, reset, mark = '', origin] = FORM.exec(text) ?? [];
  if (origin === undefined) return undefined;
  const position = { seal: Number(seal), number: Number(number), generation: Number(generation) };
  return position.number > END_OF_SEAL ? undefined : { ...position, isReset: reset !== '', mark, origin };
}

export function isAfter(left: EventPosition, right: EventPosition): boolean {
  return left.seal > right.seal || (left.seal === right.seal && left.number > right.number);
}
