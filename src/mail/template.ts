export interface Template {
  readonly subject: string;
  readonly text: string;
  readonly html: string;
}

const LINK_PLACEHOLDERS = ['link', 'email', 'minutes'] as const;
/** The placeholders that each text may have. `link` is one that it must have. */
export const PLACEHOLDERS = {
  'password-reset': LINK_PLACEHOLDERS,
  'email-verification': LINK_PLACEHOLDERS,
  'email-change': LINK_PLACEHOLDERS,
  'email-change-notice': ['email'],
} as const;

export type TemplateName = keyof typeof PLACEHOLDERS;
export type TemplateValues = Readonly<Partial<Record<(typeof LINK_PLACEHOLDERS)[number], string>>>;
