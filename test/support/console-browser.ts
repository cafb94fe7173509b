import type { Response } from 'supertest';
import { ADMIN_KEY } from './settings.js';
import type { TestApp } from './test-app.js';

export const HOST = '127.0.0.1:7701';
const ORIGIN = `http://${HOST}`;

/** A browser with one cookie, at one replica. */
export class Browser {
  cookie = '';

  constructor(readonly app: TestApp) {}

  static async logIn(app: TestApp, key = ADMIN_KEY): Promise<Browser> {
    const browser = new Browser(app);
    await browser.sendKey(key).expect(303);
    return browser;
  }

  sendKey(key: string, fields: Record<string, string> = {}) {
    return this.send('/console/login', { key, ...fields }).expect(({ headers }: Response) => {
      this.cookie = /^[^;]+/.exec(headers['set-cookie']?.[0] ?? '')?.[0] ?? this.cookie;
    });
  }

  get(path: string) {
    return this.app.get(path).set({ Host: HOST, Cookie: this.cookie });
  }

  send(path: string, fields: Record<string, string>, headers: Record<string, string> = {}) {
    const call = this.app
      .post(path)
      .type('form')
      .set({ Host: HOST, Origin: ORIGIN, Cookie: this.cookie, ...headers });
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
