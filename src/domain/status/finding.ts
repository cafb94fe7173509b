/** The checks, and what each of them finds. */
import { KEY_KIND_NAMES, KEY_KINDS } from '../../foundation/common/key-kinds.js';
import type { OperatorScope } from '../../foundation/common/names.js';

export const NUMBER_FORMAT = new Intl.NumberFormat('en');

/** The checks, worst first, each with the scope that shows it beside `read`; undefined: the scope of the kind of key. */
export const CHECKS = {
  guesses: 'read',
  clock: 'read',
  seals: 'read',
  backup: 'read',
  mail: 'read',
  maintenance: 'read',
  silent_verifiers: 'apps',
  unread_deletions: 'apps',
  unused_for_users: 'apps',
  household_without_admin: 'nodes',
  old_key_used: undefined,
  key_expires: undefined,
} as const satisfies Record<string, OperatorScope | undefined>;
export type Check = keyof typeof CHECKS;
export const CHECK_NAMES = Object.keys(CHECKS) as Check[];

export const SUBJECT_TYPES = ['address', 'user', 'household', 'host', 'service', ...KEY_KIND_NAMES] as const;

export interface Finding {
  readonly check: Check;
  readonly severity: 'critical' | 'warning';
  /** The resource with the problem; null for the platform as a whole. */
  readonly subject: {
    readonly type: (typeof SUBJECT_TYPES)[number];
    readonly id: string;
    readonly name: string;
  } | null;
  /** One sentence, with the figures. */
  readonly detail: string;
  readonly since: Date | null;
  /** The deadline. */
  readonly until: Date | null;
}

type Warning = Pick<Finding, 'check' | 'subject' | 'detail'> & Partial<Pick<Finding, 'since' | 'until'>>;

export function createWarning(warning: Warning): Finding {
  return { severity: 'warning', since: null, until: null, ...warning };
}

/** @returns the scope that shows a finding, beside `read` */
export function getScope({ check, subject }: Finding): OperatorScope {
  const kind = KEY_KIND_NAMES.find((name) => name === subject?.type);
  return CHECKS[check] ?? (kind ? KEY_KINDS[kind].scope : 'read');
}
