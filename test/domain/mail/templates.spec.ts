import { mkdtempSync, rmSync, unlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { InvalidEnvironmentError, parseEnvironment } from '../../../src/foundation/config/environment.js';
import { DEFAULT_TEMPLATES, MAIL_KINDS, Templates } from '../../../src/domain/mail/templates.js';
import { createMailTransport } from '../../../src/domain/mail/mail-transport.js';
import { readLinkPages } from '../../../src/api/recovery/links.service.js';
import { MAIL_VARIABLES } from '../../support/mail-server.js';
import { VARIABLES } from '../../support/settings.js';

const PRODUCT = 'Röst & Söhne';
const VALUES = { link: 'https://app.example.org/x?a=1&b=2#token=t', email: 'a"b<c>&\'d@example.org', minutes: '30' };

describe('the texts of the mails', () => {
  let folder: string;

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'templates-'));
    for (const kind of MAIL_KINDS) {
      const name = kind.replaceAll('_', '-');
      const { subject, text, html } = DEFAULT_TEMPLATES[kind];
      writeFileSync(join(folder, `${name}.txt`), `Subject: ${subject}\n\n${text}`);
      writeFileSync(join(folder, `${name}.html`), html);
    }
  });

  afterEach(() => rmSync(folder, { recursive: true }));

  const problemsOf = (): string[] => {
    try {
      Templates.load(folder, PRODUCT);
      return [];
    } catch (error) {
      return (error as InvalidEnvironmentError).problems;
    }
  };

  it.each(MAIL_KINDS)('of %s have no placeholder left when they are filled, built in or in files', (kind) => {
    const builtIn = Templates.load(undefined, PRODUCT).renderMail(kind, VALUES);
    expect(Templates.load(folder, PRODUCT).renderMail(kind, VALUES)).toEqual(builtIn);
    expect(Object.values(builtIn).join()).not.toMatch(/\{\{|\}\}/);
  });

  it('escape values in HTML, and leave them as they are in plain text', () => {
    const { text, html } = Templates.load(undefined, PRODUCT).renderMail('password_reset', VALUES);
    expect(text).toContain(VALUES.link);
    expect(text).toContain(VALUES.email);
    expect(html).toContain('href="https://app.example.org/x?a=1&amp;b=2#token=t"');
    expect(text).toContain('at Röst & Söhne.');
    expect(html).toContain('at Röst &amp; Söhne.');
    expect(html).toContain('a&quot;b&lt;c&gt;&amp;&#39;d@example.org');
  });

  it('fill in a placeholder once: a value that looks like one stays as it is', () => {
    const { text } = Templates.load(undefined, PRODUCT).renderMail('password_reset', {
      ...VALUES,
      email: '{{link}}@example.org',
    });
    expect(text).toContain('{{link}}@example.org');
  });

  it('replace the built-in ones, with the subject of the first line', () => {
    writeFileSync(join(folder, 'password-reset.txt'), 'Subject: Neues Passwort\r\n\r\nHier: {{ link }}\r\n');
    const { subject, text } = Templates.load(folder, PRODUCT).renderMail('password_reset', VALUES);
    expect({ subject, text }).toEqual({ subject: 'Neues Passwort', text: `Hier: ${VALUES.link}\r\n` });
  });

  it('may be left out where they only tell what was done', () => {
    for (const file of ['email-set.txt', 'email-set.html', 'factors-removed.html']) unlinkSync(join(folder, file));
    expect(problemsOf()).toEqual(['MAIL_TEMPLATES_DIR: factors-removed.html is missing or cannot be read']);
    writeFileSync(join(folder, 'factors-removed.html'), '<p>{{email}}</p>');
    const builtIn = Templates.load(undefined, PRODUCT).renderMail('email_set', VALUES);
    expect(Templates.load(folder, PRODUCT).renderMail('email_set', VALUES)).toEqual(builtIn);
  });

  it('stop the start with the name of each mistake', () => {
    unlinkSync(join(folder, 'email-change.html'));
    writeFileSync(join(folder, 'password-reset.txt'), 'Subject: x\n\n{{link}} {{name}}');
    writeFileSync(join(folder, 'password-reset.html'), '<p>no link</p>');
    writeFileSync(join(folder, 'email-change-notice.txt'), 'no subject, and a {{link}}');
    expect(problemsOf()).toEqual([
      'MAIL_TEMPLATES_DIR: password-reset.txt has the unknown placeholder {{name}}',
      'MAIL_TEMPLATES_DIR: password-reset.html must have the placeholder {{link}}',
      'MAIL_TEMPLATES_DIR: email-change.html is missing or cannot be read',
      'MAIL_TEMPLATES_DIR: email-change-notice.txt has the unknown placeholder {{link}}',
      'MAIL_TEMPLATES_DIR: email-change-notice.txt must begin with a line "Subject: …"',
    ]);
  });
});

/** The rules between variables refuse such settings already: these are the checks behind them. */
describe('a service that sends mails', () => {
  const environment = parseEnvironment({
    ...VARIABLES,
    ...MAIL_VARIABLES,
    DATABASE_URL: 'postgresql://127.0.0.1/none',
    MAIL_URL: 'smtp://127.0.0.1:25',
  });

  it('does not start, and prints no mail, without MAIL_FROM', () => {
    expect(() => createMailTransport(environment)).not.toThrow();
    expect(() => createMailTransport({ ...environment, mailFrom: undefined })).toThrow('MAIL_URL needs MAIL_FROM');
  });

  it.each([
    ['PASSWORD_RESET_URL', 'passwordResetUrl'],
    ['EMAIL_VERIFICATION_URL', 'emailVerificationUrl'],
  ] as const)('does not start, and mails no token without a page, without %s', (variable, name) => {
    expect(() => readLinkPages(environment)).not.toThrow();
    expect(() => readLinkPages({ ...environment, [name]: undefined })).toThrow(`Mails need ${variable}`);
  });
});
