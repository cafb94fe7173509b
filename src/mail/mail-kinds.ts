/** What the outbox can send. The text of each is the template of the same name, with dashes. */
export const MAIL_KINDS = ['password_reset', 'email_verification', 'email_change', 'email_change_notice'] as const;
export type MailKind = (typeof MAIL_KINDS)[number];
