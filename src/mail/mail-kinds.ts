/** What the outbox can send. The files of its text have the same name, with dashes. */
export const MAIL_KINDS = ['password_reset', 'email_verification', 'email_change', 'email_change_notice'] as const;
export type MailKind = (typeof MAIL_KINDS)[number];
