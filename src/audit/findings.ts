export type FindingKind =
  | 'changed'
  | 'missing'
  | 'inserted'
  | 'reordered'
  | 'month_missing'
  | 'seal_changed'
  | 'seal_missing'
  | 'other_key'
  | 'checkpoint';

/** One difference between the audit log and its seals. */
export interface Finding {
  readonly kind: FindingKind;
  readonly seal: number | null;
  /** The id of the row of audit_events. */
  readonly row: string | null;
  readonly time: string | null;
  readonly what: string;
}

export const MAX_FINDINGS = 1_000;

export class Findings {
  readonly all: Finding[] = [];

  /** Keeps the first {@link MAX_FINDINGS}. */
  report(kind: FindingKind, { seal = null, row = null, time = null, what }: Partial<Finding> & { what: string }): void {
    if (this.all.length < MAX_FINDINGS) this.all.push({ kind, seal, row, time, what });
  }
}
