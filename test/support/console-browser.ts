import type { Response } from 'supertest';
import { ADMIN_KEY } from './settings.js';
import type { TestApp } from './test-app.js';

export const HOST = '127.0.0.1:7701';

/** Browsers refuse passkeys at an address. */
export const NAMED_HOST = 'localhost:7701';

interface CreationOptions {
  readonly challenge: string;
  readonly user: { readonly id: string };
}

/** @returns what a form asks the browser for */
export function readPasskeyOptions(text: string, name = 'passkey'): CreationOptions {
  const [, options = ''] = new RegExp(`name="${name}"[^>]*data-options="([^"]*)"`).exec(text) ?? [];
  return JSON.parse(options.replaceAll('&quot;', '"').replaceAll('&amp;', '&')) as CreationOptions;
}

/** A browser with one cookie, at one replica. */
export class Browser {
  cookie = '';

  constructor(
    readonly app: TestApp,
    readonly host = HOST,
  ) {}

  static async logIn(app: TestApp, key = ADMIN_KEY, host = HOST): Promise<Browser> {
    const browser = new Browser(app, host);
    await browser.sendKey(key).expect(303);
    return browser;
  }

  sendKey(key: string, fields: Record<string, string> = {}) {
    return this.send('/console/login', { key, ...fields }).expect((answer: Response) => this.keepCookie(answer));
  }

  /** @param answer to the question of the login */
  sendPasskey(answer: object) {
    const passkey = JSON.stringify(answer);
    return this.send('/console/login/passkey', { passkey }).expect((sent: Response) => this.keepCookie(sent));
  }

  /** Adds a passkey of the session's operator, with what the page asks the browser for. */
  async addPasskey(authenticator: { create(options: CreationOptions): object }) {
    const form = await this.readForm('/console/passkeys/new', '/console/passkeys');
    const { text } = await this.get('/console/passkeys/new').expect(200);
    const new_passkey = JSON.stringify(authenticator.create(readPasskeyOptions(text, 'new_passkey')));
    return this.send('/console/passkeys', { ...form, name: 'phone', new_passkey });
  }

  private keepCookie({ headers }: Response): void {
    this.cookie = /^[^;]+/.exec(headers['set-cookie']?.[0] ?? '')?.[0] ?? this.cookie;
  }

  get(path: string) {
    return this.app.get(path).set({ Host: this.host, Cookie: this.cookie });
  }

  send(path: string, fields: Record<string, string>, headers: Record<string, string> = {}) {
    const call = this.app
      .post(path)
      .type('form')
      .set({ Host: this.host, Origin: `http://${this.host}`, Cookie: this.cookie, ...headers });
    return call.send(new URLSearchParams(fields).toString());
  }

  /** @returns the hidden fields of the form with this action on a page */
  async readForm(path: string, action = path): Promise<Record<string, string>> {
    const { text } = await this.get(path).expect(200);
    const form = text.slice(text.indexOf(`action="${action}"`)).split('</form>', 1)[0]!;
    const hidden = form.matchAll(/<input type="hidden" name="(\w+)" value="([^"]*)"/g);
    return Object.fromEntries([...hidden].map(([, name = '', value = '']) => [name, value]));
  }

  async submit(path: string, fields: Record<string, string> = {}): Promise<Response> {
    return this.send(path, { ...(await this.readForm(path)), ...fields });
  }
}
