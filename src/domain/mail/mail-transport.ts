import type { Environment } from '../../foundation/config/environment.js';
import type { MailSender, MailServer } from '../../foundation/config/urls.js';

const CONNECT_TIMEOUT_MS = 10_000;
const IDLE_TIMEOUT_MS = 20_000;
/** The commands whose refusal is about the mail: recipient and content. Others are about the server or its settings. */
const REFUSES_MAIL = /^(RCPT TO|DATA)/;

export interface Mail {
  /** Canonical address. */
  readonly to: string;
  readonly subject: string;
  readonly text: string;
  readonly html: string;
}

/** The mail server did not accept a mail. */
export class MailNotAcceptedError extends Error {
  override readonly name = 'MailNotAcceptedError';
  /** The SMTP command that was refused. */
  readonly command: string | undefined;
  /** The code of the SMTP reply; undefined when there was none. */
  readonly status: number | undefined;

  constructor(cause: unknown) {
    super('The mail server did not accept the mail', { cause });
    const { command, responseCode } = cause as { command?: unknown; responseCode?: unknown };
    this.command = typeof command === 'string' ? command : undefined;
    this.status = typeof responseCode === 'number' ? responseCode : undefined;
  }

  /** A 5xx about the mail (RFC 5321 §4.2.1): the same mail will be refused again. */
  get isFinal(): boolean {
    return this.status !== undefined && this.status >= 500 && REFUSES_MAIL.test(this.command ?? '');
  }
}

/** Delivers one mail. */
export abstract class MailTransport {
  /**
   * @param signal bounds the whole conversation: a server that sends one byte a second is never idle
   * @throws {MailNotAcceptedError}
   */
  abstract send(mail: Mail, signal: AbortSignal): Promise<void>;
}

/** Whether the routes that need mail exist. Production sends mail or has none of these routes. */
export function isMailEnabled({ mailUrl, nodeEnv }: Environment): boolean {
  return mailUrl !== undefined || nodeEnv !== 'production';
}

/** Fails closed: with a mail server, no mistake in the settings prints a mail, and the token in it. */
export function createMailTransport({ mailUrl, mailFrom }: Pick<Environment, 'mailUrl' | 'mailFrom'>): MailTransport {
  if (!mailUrl) return new ConsoleTransport();
  if (!mailFrom) throw new Error('MAIL_URL needs MAIL_FROM');
  return new SmtpTransport(mailUrl, mailFrom);
}

/** One connection per mail: mails are rare, and a server that hangs delays one only. */
class SmtpTransport extends MailTransport {
  constructor(
    private readonly server: MailServer,
    private readonly from: MailSender,
  ) {
    super();
  }

  override async send({ to, ...content }: Mail, signal: AbortSignal): Promise<void> {
    const { host, port, tls, login } = this.server;
    // Mails are rare: a start does not load it.
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
        // nodemailer does not parse an object: an address can become neither two nor a header.
        to: { name: '', address: to },
        // RFC 3834: suppresses automatic replies.
        headers: { 'Auto-Submitted': 'auto-generated', 'X-Auto-Response-Suppress': 'All' },
        signal,
      });
    } catch (error) {
      throw new MailNotAcceptedError(error);
    }
  }
}

/** Development prints mails to the console and not to the log, which may be shipped and must hold no secrets. */
class ConsoleTransport extends MailTransport {
  override send({ to, subject, text }: Mail): Promise<void> {
    const body = text.trimEnd().replace(/\n(?=.)/g, '\n    ');
    console.log(`\n  Mail to ${to} (printed, because MAIL_URL is not set)\n  ${subject}\n\n    ${body}\n`);
    return Promise.resolve();
  }
}
