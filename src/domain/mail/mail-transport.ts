import type { Environment } from '../../foundation/config/environment.js';
import type { MailSender, MailServer } from '../../foundation/config/urls.js';

const CONNECT_TIMEOUT_MS = 10_000;
const IDLE_TIMEOUT_MS = 20_000;
/** A refusal of these SMTP commands concerns the mail; of any other, the server or its settings. */
const REFUSES_MAIL = /^(RCPT TO|DATA)/;

interface Mail {
  readonly to: string;
  readonly subject: string;
  readonly text: string;
  readonly html: string;
}

export class MailNotAcceptedError extends Error {
  override readonly name = 'MailNotAcceptedError';
  readonly command: string | undefined;
  readonly status: number | undefined;

  constructor(cause: unknown) {
    super('The mail server did not accept the mail', { cause });
    const { command, responseCode } = cause as { command?: unknown; responseCode?: unknown };
    this.command = typeof command === 'string' ? command : undefined;
    this.status = typeof responseCode === 'number' ? responseCode : undefined;
  }

  /** Whether a retry is pointless: a 5xx about the mail will be repeated (RFC 5321 §4.2.1). */
  get isFinal(): boolean {
    return this.status !== undefined && this.status >= 500 && REFUSES_MAIL.test(this.command ?? '');
  }
}

export abstract class MailTransport {
  /**
   * @param signal limits the whole conversation, because a server that sends one byte a second is never idle
   * @throws {MailNotAcceptedError}
   */
  abstract sendMail(mail: Mail, signal: AbortSignal): Promise<void>;
}

/** Whether the routes that need mail exist. Production without a mail server has none of them. */
export function isMailEnabled({ mailUrl, nodeEnv }: Environment): boolean {
  return mailUrl !== undefined || nodeEnv !== 'production';
}

/** Fails closed: when a mail server is configured, no mistake in the settings prints a mail with its token. */
export function createMailTransport({ mailUrl, mailFrom }: Pick<Environment, 'mailUrl' | 'mailFrom'>): MailTransport {
  if (!mailUrl) return new ConsoleTransport();
  if (!mailFrom) throw new Error('MAIL_URL needs MAIL_FROM');
  return new SmtpTransport(mailUrl, mailFrom);
}

/** Uses one connection per mail, because mails are rare and a server that hangs then delays only one. */
class SmtpTransport extends MailTransport {
  constructor(
    private readonly server: MailServer,
    private readonly from: MailSender,
  ) {
    super();
  }

  override async sendMail({ to, ...content }: Mail, signal: AbortSignal): Promise<void> {
    const { host, port, tls, login } = this.server;
    // Loaded at the first mail, so that it does not delay the start.
    const { createTransport } = await import('nodemailer');
    const transporter = createTransport({
      host,
      port,
      secure: tls === 'implicit',
      requireTLS: tls === 'starttls',
      ignoreTLS: tls === 'off',
      auth: login && { user: login.user, pass: login.password },
      dnsTimeout: CONNECT_TIMEOUT_MS,
      connectionTimeout: CONNECT_TIMEOUT_MS,
      greetingTimeout: CONNECT_TIMEOUT_MS,
      socketTimeout: IDLE_TIMEOUT_MS,
      allowInternalNetworkInterfaces: true,
      disableFileAccess: true,
      disableUrlAccess: true,
    });
    try {
      await transporter.sendMail({
        ...content,
        from: { ...this.from },
        // nodemailer does not parse an object, so an address can become neither two addresses nor a header.
        to: { name: '', address: to },
        // Suppresses automatic replies (RFC 3834).
        headers: { 'Auto-Submitted': 'auto-generated', 'X-Auto-Response-Suppress': 'All' },
        signal,
      });
    } catch (error) {
      throw new MailNotAcceptedError(error);
    }
  }
}

/** Prints mails to the console of development and not to the log, which may be shipped and must contain no secrets. */
class ConsoleTransport extends MailTransport {
  override sendMail({ to, subject, text }: Mail): Promise<void> {
    const body = text.trimEnd().replace(/\n(?=.)/g, '\n    ');
    console.log(`\n  Mail to ${to} (printed, because MAIL_URL is not set)\n  ${subject}\n\n    ${body}\n`);
    return Promise.resolve();
  }
}
