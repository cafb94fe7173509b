import { once } from 'node:events';
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { text as readText } from 'node:stream/consumers';
import { SMTPServer, type SMTPServerOptions } from 'smtp-server';
import type { Test as SupertestRequest } from 'supertest';
import type { Variables } from '../../src/foundation/config/environment.js';
import { MailWorker } from '../../src/domain/mail/mail-worker.js';
import { claimPort } from '../../tools/claim-port.js';
import { eventually } from '../../tools/eventually.js';
import type { TestApp } from './test-app.js';
import { NEW_PASSWORD } from './owner.js';
import { UNLEASED } from './settings.js';

interface ReceivedMail {
  readonly to: string;
  readonly subject: string;
  readonly headers: string;
  readonly text: string;
  readonly html: string;
  /** The token of the link, if there is one. */
  readonly token: string | undefined;
}

type Step = 'connect' | 'mail' | 'rcpt' | 'data';

/** A real SMTP server on loopback, which keeps what it accepts. */
export class MailServer {
  readonly mails: ReceivedMail[] = [];
  /** Counts the recipients of refused and accepted mails alike. */
  attempts = 0;
  /** How to end each conversation that the server lets hang. */
  readonly held = new Map<string, (error: Error) => void>();
  isSlow: (address: string) => boolean = () => false;
  private refusal: { step: Step; code: number } | undefined;
  private smtp!: SMTPServer;
  private chosenPort = 0;

  constructor(private readonly options: SMTPServerOptions = {}) {}

  get port(): number {
    return this.chosenPort;
  }

  get url(): string {
    return `smtp://127.0.0.1:${this.port}`;
  }

  /** Listens. After a stop it listens on the same port again. */
  async start(): Promise<void> {
    this.smtp = new SMTPServer({
      authOptional: true,
      logger: false,
      closeTimeout: 100,
      ...this.options,
      onConnect: (_session, callback) => callback(this.refuseAt('connect')),
      onMailFrom: (_address, _session, callback) => callback(this.refuseAt('mail')),
      onClose: ({ id }) => void this.held.delete(id),
      onRcptTo: ({ address }, { id }, callback) => {
        this.attempts += 1;
        if (this.isSlow(address)) return void this.held.set(id, callback);
        callback(this.refuseAt('rcpt'));
      },
      onData: (stream, { envelope }, callback) => {
        void readText(stream).then((raw) => {
          const refusal = this.refuseAt('data');
          if (!refusal) this.mails.push(parseMail(envelope.rcptTo.map(({ address }) => address).join(), raw));
          callback(refusal);
        });
      },
    });
    this.smtp.on('error', () => undefined);
    if (this.chosenPort === 0) this.chosenPort = await claimPort();
    await new Promise<void>((resolve) => this.smtp.listen(this.port, '127.0.0.1', resolve));
  }

  async stop(): Promise<void> {
    await new Promise<void>((resolve) => this.smtp.close(resolve));
  }

  /** Answers this step with this code, until {@link accept}. */
  refuse(step: Step, code: number): void {
    this.refusal = { step, code };
  }

  accept(): void {
    this.refusal = undefined;
  }

  /** Refuses the recipients of all conversations that hang. */
  release(): void {
    this.isSlow = () => false;
    for (const refuse of this.held.values()) refuse(Object.assign(new Error('not now'), { responseCode: 451 }));
    this.held.clear();
  }

  to(address: string): ReceivedMail[] {
    return this.mails.filter(({ to }) => to === address);
  }

  tokensTo(address: string): string[] {
    return this.to(address).flatMap(({ token }) => token ?? []);
  }

  private refuseAt(step: Step): Error | null {
    if (this.refusal?.step !== step) return null;
    return Object.assign(new Error('not now'), { responseCode: this.refusal.code });
  }
}

/**
 * Runs a mail server for all tests of the file. Call it before the application that uses its variables starts.
 * @param more variables of that application; without a lease among them, it is {@link UNLEASED}
 */
export function useMailServer(more: Variables = {}): { server: MailServer; variables: Variables } {
  const server = new MailServer();
  const variables: Variables = { ...UNLEASED, ...MAIL_VARIABLES, ...more };
  // A getter, because the port is known only when the application reads the variables.
  Object.defineProperty(variables, 'MAIL_URL', { get: () => server.url, enumerable: true });
  beforeAll(() => server.start());
  afterAll(() => server.stop());
  return { server, variables };
}

export const MAIL_VARIABLES = {
  MAIL_FROM: 'Example <accounts@example.org>',
  PASSWORD_RESET_URL: 'https://app.example.org/reset?from=mail',
  EMAIL_VERIFICATION_URL: 'https://app.example.org/verify',
} as const;

/** A server that accepts connections but never answers. */
export class SilentServer {
  readonly sockets: Socket[] = [];
  private constructor(private readonly server: Server) {
    server.on('connection', (socket) => this.sockets.push(socket.on('error', () => undefined)));
  }

  static async start(): Promise<SilentServer> {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new SilentServer(server);
  }

  get url(): string {
    return `smtp://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  stop(): void {
    for (const socket of this.sockets) socket.destroy();
    this.server.close();
  }
}

/** Makes every request due, and sends all due mails. */
export async function workOff(app: TestApp): Promise<void> {
  const worker = app.nest.get(MailWorker);
  // Sends twice, because a run that has begun already may have missed the newest request.
  await worker.sendDueMails();
  await app.database.query('UPDATE mail_requests SET next_attempt_at = now()');
  await worker.sendDueMails();
}

export async function countWaiting(app: TestApp): Promise<number> {
  const [row] = await app.database.query<{ count: number }>('SELECT count(*)::int AS count FROM mail_requests');
  return row!.count;
}

/** Waits for the newest mail to this address. */
export async function receive(app: TestApp, server: MailServer, address: string, count = 1): Promise<ReceivedMail> {
  await workOff(app);
  await eventually('the mail arrives', () => server.to(address).length >= count);
  return server.to(address).at(-1)!;
}

/**
 * @param count of the mails with a link; others may be notices
 * @returns the token of the newest mail with a link to this address
 */
export async function receiveToken(app: TestApp, server: MailServer, address: string, count = 1): Promise<string> {
  await workOff(app);
  await eventually('the mail with the link arrives', () => server.tokensTo(address).length >= count);
  return server.tokensTo(address).at(-1)!;
}

/** Reads both alternatives that nodemailer composes. */
function parseMail(to: string, raw: string): ReceivedMail {
  const [headers = '', ...body] = raw.split('\r\n\r\n');
  const boundary = /boundary="([^"]+)"/.exec(headers)?.[1] ?? '';
  const parts = body.join('\r\n\r\n').split(`--${boundary}`);
  const read = (type: string): string => decodePart(parts.find((part) => part.includes(`Content-Type: ${type}`)) ?? '');
  const text = read('text/plain');
  return {
    to,
    subject: /^Subject: (.*)$/m.exec(headers)?.[1]?.trim() ?? '',
    headers,
    text,
    html: read('text/html'),
    token: /#token=([\w-]+)/.exec(text)?.[1],
  };
}

function decodePart(part: string): string {
  const [head = '', ...lines] = part.split('\r\n\r\n');
  const content = lines.join('\r\n\r\n');
  if (!head.includes('quoted-printable')) return content;
  const bytes = content
    .replace(/=\r\n/g, '')
    .replace(/=([0-9A-F]{2})/g, (_match, hex: string) => String.fromCharCode(parseInt(hex, 16)));
  return Buffer.from(bytes, 'latin1').toString('utf8');
}

/** What users do with the links of an application, whose mails this server receives. */
export class Links {
  constructor(
    private readonly app: TestApp,
    private readonly server: MailServer,
  ) {}

  requestReset(email: string): SupertestRequest {
    return this.app.post('/api/v0/auth/password-reset', { email });
  }

  confirmReset(token: string, new_password = NEW_PASSWORD): SupertestRequest {
    return this.app.post('/api/v0/auth/password-reset/confirm', { token, new_password });
  }

  requestVerification(email: string): SupertestRequest {
    return this.app.post('/api/v0/auth/email-verification', { email });
  }

  confirmEmail(token: string, app = this.app): SupertestRequest {
    return app.post('/api/v0/auth/email-verification/confirm', { token });
  }

  /**
   * Makes a request that is answered with 202.
   * @returns the token of the mail that it causes
   */
  async tokenOf(request: SupertestRequest, email: string): Promise<string> {
    const count = this.server.tokensTo(email).length + 1;
    await request.expect(202);
    return receiveToken(this.app, this.server, email, count);
  }

  resetToken(email: string): Promise<string> {
    return this.tokenOf(this.requestReset(email), email);
  }

  verificationToken(email: string): Promise<string> {
    return this.tokenOf(this.requestVerification(email), email);
  }

  /** @returns the token that an operator hands over */
  async handOver(userId: string): Promise<{ token: string; expires_at: string }> {
    const { body } = await this.app.admin.post(`/users/${userId}/password-reset`).expect(201);
    return body as { token: string; expires_at: string };
  }
}
