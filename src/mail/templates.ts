import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { InvalidEnvironmentError } from '../config/environment.js';
import { DEFAULT_TEMPLATES } from './default-templates.js';
import { MAIL_KINDS, type MailKind } from './mail-kinds.js';
import { PLACEHOLDERS, type Template, type TemplateValues } from './template.js';

const PLACEHOLDER = /\{\{(.*?)\}\}/g;
const SUBJECT = /^Subject:[ \t]*(\S[^\r\n]*)\r?\n(?:[ \t]*\r?\n)?/;
const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

/** The texts of the mails, built in or an operator's own. */
export class Templates {
  private constructor(private readonly templates: Readonly<Record<MailKind, Template>>) {}

  /**
   * @param folder with `NAME.txt`, which begins with `Subject: …`, and `NAME.html` for every name
   * @throws {InvalidEnvironmentError} naming each file that is missing, and each placeholder that is unknown or missing
   */
  static load(folder: string | undefined): Templates {
    if (folder === undefined) return new Templates(DEFAULT_TEMPLATES);
    const problems: string[] = [];
    const own = MAIL_KINDS.map((kind) => [kind, readTemplate(folder, kind, problems)] as const);
    if (problems.length > 0) throw new InvalidEnvironmentError(problems.map((each) => `MAIL_TEMPLATES_DIR: ${each}`));
    return new Templates(Object.fromEntries(own) as Record<MailKind, Template>);
  }

  /** @param values are escaped where they become HTML */
  render(kind: MailKind, values: TemplateValues): Template {
    const { subject, text, html } = this.templates[kind];
    const escaped = Object.fromEntries(Object.entries(values).map(([key, value]) => [key, escapeHtml(value)]));
    return { subject: fill(subject, values), text: fill(text, values), html: fill(html, escaped) };
  }
}

function readTemplate(folder: string, kind: MailKind, problems: string[]): Template {
  const name = kind.replaceAll('_', '-');
  const [text, html] = [`${name}.txt`, `${name}.html`].map((file) => {
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
  const known: readonly string[] = PLACEHOLDERS[kind];
  const used = new Set(Array.from(content.matchAll(PLACEHOLDER), ([, placeholder = '']) => placeholder.trim()));
  const unknown = [...used].filter((each) => !known.includes(each));
  const mistakes = unknown.map((each) => `${file} has the unknown placeholder {{${each.slice(0, 40)}}}`);
  if (known.includes('link') && !used.has('link')) mistakes.push(`${file} must have the placeholder {{link}}`);
  return mistakes;
}

function fill(content: string, values: Readonly<Record<string, string>>): string {
  return content.replace(PLACEHOLDER, (_match, placeholder: string) => values[placeholder.trim()] ?? '');
}

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => ENTITIES[character] ?? character);
}
