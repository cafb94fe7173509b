import { folder, linkUrl, mailSender, mailUrl } from './mail-url.js';
import type { Section } from './variable.js';

/** Without a mail server: development prints its mails, and the developer copies the token out of the link. */
export const DEVELOPMENT_MAIL = {
  MAIL_FROM: { name: 'platform-auth', address: 'platform-auth@localhost' },
  PASSWORD_RESET_URL: 'http://localhost:3000/password-reset',
  EMAIL_VERIFICATION_URL: 'http://localhost:3000/email-verification',
} as const;

export const mailSection = {
  title: 'E-mail',
  variables: {
    MAIL_URL: {
      type: mailUrl.optional(),
      mayBeFile: true,
      example: 'smtps://user:password@mail.example.org:465',
      meaning:
        'the mail server for [links by e-mail](operations/mail.md); unset: development prints each mail, production ' +
        'answers 404 on the routes that need mail',
      explanation:
        'The mail server: smtps://user:password@host:465, or smtp:// (port 587), which needs STARTTLS. A host on ' +
        'loopback is used without TLS. ?tls=required demands it there too; ?tls=off sends mails and password as ' +
        'plain text. Special characters of user and password are percent-encoded.\n' +
        'Unset: development prints each mail; production answers 404 on the routes that need mail.',
    },
    MAIL_FROM: {
      type: mailSender.optional(),
      example: 'Example <accounts@example.org>',
      meaning: 'the sender of every mail; required with `MAIL_URL`',
      explanation: 'The sender of every mail: an address, or a name and an address. Required with MAIL_URL.',
    },
    PASSWORD_RESET_URL: {
      type: linkUrl.optional(),
      example: 'https://app.example.org/password-reset',
      meaning: 'the page that a link to reset a password leads to, with `#token=…`; required with `MAIL_URL`',
      explanation:
        'The page of your application that asks for the new password. The link adds #token=…, which browsers send to ' +
        'no server. Required with MAIL_URL.',
    },
    EMAIL_VERIFICATION_URL: {
      type: linkUrl.optional(),
      example: 'https://app.example.org/email-verification',
      meaning: 'the same for a link that proves an e-mail address; required with `MAIL_URL`',
      explanation:
        'The page of your application that confirms an e-mail address, after a registration or a change of address. ' +
        'Required with MAIL_URL.',
    },
    MAIL_TEMPLATES_DIR: {
      type: folder.optional(),
      example: '/etc/platform-auth/mail',
      meaning: 'folder of your own [texts of the mails](operations/mail.md#texts-of-your-own)',
      explanation:
        'Folder of your own texts, which replace the built-in ones: all eight files of docs/operations/mail.md. A ' +
        'missing file or an unknown placeholder stops the start.',
    },
  },
} satisfies Section;
