import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { InvalidEnvironmentError } from '../../foundation/config/environment.js';

/** Mails without a link, which tell a user what was done or tried. An operator's folder need not have their texts. */
const NOTICE_KINDS = [
  'password_reset_notice',
  'password_changed',
  'email_changed',
  'email_set',
  'factor_added',
  'factors_removed',
  'failed_logins',
  'registration_notice',
] as const;
export type NoticeKind = (typeof NOTICE_KINDS)[number];

/** The kinds of mails. The files of their texts have the same names, with dashes. */
export const MAIL_KINDS = [
  'password_reset',
  'email_verification',
  'email_change',
  'email_change_notice',
  'account_invitation',
  ...NOTICE_KINDS,
] as const;
export type MailKind = (typeof MAIL_KINDS)[number];

export function isNotice(kind: MailKind): kind is NoticeKind {
  return (NOTICE_KINDS as readonly MailKind[]).includes(kind);
}

interface Template {
  readonly subject: string;
  readonly text: string;
  readonly html: string;
}

const LINK_PLACEHOLDERS = ['link', 'email', 'minutes', 'days', 'product'] as const;
const NOTICE_PLACEHOLDERS: readonly string[] = ['email', 'product'];
const KINDS_WITH_LINK: readonly MailKind[] = [
  'password_reset',
  'email_verification',
  'email_change',
  'account_invitation',
];

export type TemplateValues = Readonly<Partial<Record<(typeof LINK_PLACEHOLDERS)[number], string>>>;

const PLACEHOLDER = /\{\{(.*?)\}\}/g;
const SUBJECT = /^Subject:[ \t]*(\S[^\r\n]*)\r?\n(?:[ \t]*\r?\n)?/;
const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

/** The texts of mails: the built-in ones, or an operator's own. */
export class Templates {
  private constructor(
    private readonly templates: Readonly<Record<MailKind, Template>>,
    private readonly product: string,
  ) {}

  /**
   * @param folder has `NAME.txt`, which begins with `Subject: …`, and `NAME.html` for each kind
   * @throws {InvalidEnvironmentError} naming each file that is missing, and each placeholder that is unknown or missing
   */
  static load(folder: string | undefined, product: string): Templates {
    if (folder === undefined) return new Templates(DEFAULT_TEMPLATES, product);
    const problems: string[] = [];
    const own = MAIL_KINDS.map((kind) => [kind, readTemplate(folder, kind, problems)] as const);
    if (problems.length > 0) throw new InvalidEnvironmentError(problems.map((each) => `MAIL_TEMPLATES_DIR: ${each}`));
    return new Templates(Object.fromEntries(own) as Record<MailKind, Template>, product);
  }

  /** @param given values, which are escaped in HTML */
  renderMail(kind: MailKind, given: TemplateValues): Template {
    const values = { product: this.product, ...given };
    const { subject, text, html } = this.templates[kind];
    const escaped = Object.fromEntries(Object.entries(values).map(([key, value]) => [key, escapeHtml(value)]));
    return { subject: fill(subject, values), text: fill(text, values), html: fill(html, escaped) };
  }
}

function readTemplate(folder: string, kind: MailKind, problems: string[]): Template {
  const name = kind.replaceAll('_', '-');
  const files = [`${name}.txt`, `${name}.html`];
  if (isNotice(kind) && !files.some((file) => existsSync(join(folder, file)))) return DEFAULT_TEMPLATES[kind];
  const [text, html] = files.map((file) => {
    const content = readTemplateFile(join(folder, file));
    if (content === undefined) problems.push(`${file} is missing or cannot be read`);
    else problems.push(...findMistakes(kind, file, content));
    return content ?? '';
  }) as [string, string];
  const [head = '', subject = ''] = SUBJECT.exec(text) ?? [];
  if (text !== '' && subject === '') problems.push(`${name}.txt must begin with a line "Subject: …"`);
  return { subject: subject.trimEnd(), text: text.slice(head.length), html };
}

function readTemplateFile(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}

function findMistakes(kind: MailKind, file: string, content: string): string[] {
  const hasLink = KINDS_WITH_LINK.includes(kind);
  const known: readonly string[] = hasLink ? LINK_PLACEHOLDERS : NOTICE_PLACEHOLDERS;
  const used = new Set(Array.from(content.matchAll(PLACEHOLDER), ([, placeholder = '']) => placeholder.trim()));
  const unknown = [...used].filter((each) => !known.includes(each));
  const mistakes = unknown.map((each) => `${file} has the unknown placeholder {{${each.slice(0, 40)}}}`);
  if (hasLink && !used.has('link')) mistakes.push(`${file} must have the placeholder {{link}}`);
  return mistakes;
}

function fill(content: string, values: Readonly<Record<string, string>>): string {
  return content.replace(PLACEHOLDER, (_match, placeholder: string) => values[placeholder.trim()] ?? '');
}

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => ENTITIES[character] ?? character);
}

function toMail(subject: string, ...paragraphs: readonly string[]): Template {
  const html = paragraphs.map((paragraph) => `<p>${paragraph}</p>\n`).join('');
  return { subject, text: `${paragraphs.join('\n\n')}\n`, html };
}

function toNotice(subject: string, what: string): Template {
  return toMail(subject, what, 'If you did not expect this, your account may be in danger: contact {{product}}.');
}

/** @param lead precedes the link in plain text; in HTML `words` are the link */
function toLinkMail(subject: string, what: string, lead: string, words: string, otherwise: string): Template {
  const end = `The link works once. ${otherwise}`;
  const { text } = toMail(subject, what + lead, '{{link}}', end);
  return { ...toMail(subject, what, `<a href="{{link}}">${words}</a> within {{minutes}} minutes.`, end), text };
}

/** The built-in texts. docs/operations/mail.md explains how to replace them. */
export const DEFAULT_TEMPLATES: Readonly<Record<MailKind, Template>> = {
  password_reset: toLinkMail(
    'Reset your password',
    'A new password was requested for the account {{email}} at {{product}}.',
    '\n\nTo choose one, open this link within {{minutes}} minutes:',
    'Choose a new password',
    'If you did not ask for it, ignore this mail: your password stays as it is.',
  ),
  email_verification: toLinkMail(
    'Confirm your e-mail address',
    'Please confirm that {{email}} is your e-mail address at {{product}}.',
    ' Open this link within {{minutes}} minutes:',
    'Confirm the address',
    'If you have no account with us, ignore this mail.',
  ),
  email_change: toLinkMail(
    'Confirm your new e-mail address',
    '{{email}} was given as the new e-mail address of an account at {{product}}.',
    ' To confirm it, open this link\nwithin {{minutes}} minutes:',
    'Confirm the new address',
    'If you did not ask for it, ignore this mail: the account keeps its address.',
  ),
  email_change_notice: toMail(
    'Your e-mail address is about to change',
    'Another e-mail address was given for the account {{email}} at {{product}}, by a person who knows its ' +
      'password. The change takes effect when the new address is confirmed.',
    'If that was not you, change your password now: that stops the change.',
  ),
  account_invitation: {
    ...toMail(
      'Your account at {{product}}',
      'An account was made for {{email}} at {{product}}. To use it, choose a password:',
      '<a href="{{link}}">Choose a password</a> within {{days}} days.',
      'The link works once. Later, ask for a new password at {{product}} to get another one. If you want no account, ' +
        'ignore this mail.',
    ),
    text:
      'An account was made for {{email}} at {{product}}. To use it, choose a password. Open this link\n' +
      'within {{days}} days:\n\n{{link}}\n\n' +
      'The link works once. Later, ask for a new password at {{product}} to get another one.\n' +
      'If you want no account, ignore this mail.\n',
  },
  password_reset_notice: toNotice(
    'Your password was changed',
    'The password of the account {{email}} at {{product}} was reset, and every session of it has ended.',
  ),
  password_changed: toNotice(
    'Your password was changed',
    'The password of the account {{email}} at {{product}} was changed by a person who knew it, and every other session ' +
      'of the account has ended.',
  ),
  email_changed: toNotice(
    'Your e-mail address was changed',
    'The account {{email}} at {{product}} has another e-mail address now. This one no longer belongs to it.',
  ),
  email_set: toNotice(
    'Your e-mail address was changed',
    '{{email}} is the e-mail address of your account at {{product}} now: use it to log in.',
  ),
  factor_added: toNotice(
    'A second factor was added',
    'A second factor was added to the account {{email}} at {{product}}: an authenticator app or a passkey.',
  ),
  factors_removed: toNotice(
    'A second factor was removed',
    'A second factor of the account {{email}} at {{product}} was removed: an authenticator app or a passkey.',
  ),
  failed_logins: toMail(
    'Many failed logins',
    'Many logins to the account {{email}} at {{product}} were refused within a day, because of a wrong password or a ' +
      'wrong code.',
    'If that was not you: a long password that you use nowhere else, and a second factor, keep the account safe. You get ' +
      'this mail at most once a day.',
  ),
  registration_notice: toMail(
    'You already have an account',
    'A registration with {{email}} was asked for at {{product}}, and you have an account with this address already. It ' +
      'stays as it is.',
    'To log in without knowing the password, ask for a new one at {{product}}. If you did not try to register, ignore ' +
      'this mail.',
  ),
};
