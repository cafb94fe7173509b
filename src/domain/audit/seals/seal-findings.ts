/** What `audit verify` reports, and which of it an operator has acknowledged. */
import type { AuditEventName } from '../../../foundation/common/security-events.js';
import { computeDigest, isSameDigest } from '../../../foundation/crypto/secret.js';
import { UTC_TIME, type Acknowledgement, type Query, type SealKeys } from './seal.js';

type FindingKind =
  | 'changed'
  | 'missing'
  | 'inserted'
  | 'reordered'
  | 'month_missing'
  | 'seal_changed'
  | 'seal_missing'
  | 'other_key'
  | 'checkpoint';

export interface SealFinding {
  /** The same in every run, until what was found changes. */
  readonly name: string;
  readonly kind: FindingKind;
  readonly seal: number | null;
  readonly row: string | null;
  readonly time: string | null;
  readonly what: string;
}

/** A finding that an operator has looked at. */
export interface AcknowledgedFinding extends SealFinding {
  readonly acknowledged_by: string;
  readonly acknowledged_at: string;
  readonly reason: string;
}

type Report = Partial<Omit<SealFinding, 'name'>> & {
  readonly what: string;
  /** The present state of what was tampered with: another change of it is another finding. */
  readonly state: string;
};

export const MAX_FINDINGS = 1_000;
const NAME_LENGTH = 12;

export const ACKNOWLEDGED: AuditEventName = 'audit.finding.acknowledged';

const ACKNOWLEDGEMENTS = `SELECT subject AS finding, details ->> 'operator' AS operator, details ->> 'reason' AS reason,
    details ->> 'mac' AS mac, ${UTC_TIME} AS at FROM audit_events AS logged
  WHERE event = $1 AND num_nonnulls(subject, details ->> 'operator', details ->> 'reason', details ->> 'mac') = 4
  ORDER BY logged.time DESC`;

export class SealFindings {
  readonly open: SealFinding[] = [];
  readonly acknowledged: AcknowledgedFinding[] = [];
  private acknowledgements: ReadonlyMap<string, Acknowledgement> = new Map();

  /** Ignores rows without a valid HMAC: an attacker who can write to the database cannot acknowledge without the key. */
  async readAcknowledgements(query: Query, keys: SealKeys): Promise<void> {
    const all = await query<Acknowledgement & { mac: string }>(ACKNOWLEDGEMENTS, [ACKNOWLEDGED]);
    const valid = all.filter((each) => {
      const mac = Buffer.from(each.mac, 'hex');
      return [...keys.values()].some((key) => isSameDigest(key.computeAcknowledgementMac(each), mac));
    });
    this.acknowledgements = new Map(valid.map((each) => [each.finding, each]));
  }

  get acknowledgedCount(): number {
    return this.acknowledgements.size;
  }

  report(kind: FindingKind, { seal = null, row = null, time = null, what, state }: Report): void {
    const digest = computeDigest(JSON.stringify([kind, row ?? seal, state])).toString('hex');
    const name = `${kind}-${digest.slice(0, NAME_LENGTH)}`;
    const finding = { name, kind, seal, row, time, what };
    const known = this.acknowledgements.get(name);
    if (known) {
      const { operator, at, reason } = known;
      this.acknowledged.push({ ...finding, acknowledged_by: operator, acknowledged_at: at, reason });
    } else if (this.open.length < MAX_FINDINGS) this.open.push(finding);
  }
}
