import type { MailKind } from './mail-kinds.js';

export interface Template {
  readonly subject: string;
  readonly text: string;
  readonly html: string;
}

const LINK_PLACEHOLDERS = ['link', 'email', 'minutes'] as const;
/** The placeholders that each text may have. `link` is one that it must have. */
export const PLACEHOLDERS = {
  password_reset: LINK_PLACEHOLDERS,
  email_verification: LINK_PLACEHOLDERS,
  email_change: LINK_PLACEHOLDERS,
  email_change_notice: ['email'],
} as const satisfies Record<MailKind, readonly string[]>;

export type TemplateValues = Readonly<Partial<Record<(typeof LINK_PLACEHOLDERS)[number], string>>>;
