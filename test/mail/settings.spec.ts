import { parseEnvironment } from '../../src/config/environment.js';
import { createMailTransport } from '../../src/mail/mail-transport.js';
import { readLinkPages } from '../../src/recovery/links.js';
import { MAIL_VARIABLES } from '../support/mail-server.js';
import { VARIABLES } from '../support/settings.js';

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
