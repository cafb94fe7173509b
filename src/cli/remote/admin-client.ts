import type { Variables } from '../../config/environment.js';
import type { NodePair } from './config-format.js';
import {
  parseBaseUrl,
  callService,
  HEADER_VALUE,
  withAdvice,
  readProblem,
  RefusedError,
  toRefusal,
} from '../service-call.js';
import { CommandFailedError, say } from '../terminal.js';

const DEFAULT_URL = 'http://127.0.0.1:7701';
const PATIENCE_MS = 1_000;
const PAGE_LIMIT = 100;
const AGAIN = 'To ask for it again does no harm.';

export type Query = Readonly<Record<string, string | undefined>>;

/** The service as an operator calls it, from any machine: over HTTP, through the admin door. */
export class AdminClient {
  private constructor(
    readonly url: string,
    private readonly adminKey: string,
    private readonly appHeaders: Readonly<Record<string, string>>,
  ) {}

  /**
   * @param url of the service; without it AUTH_URL, or this machine
   * @throws {CommandFailedError} when ADMIN_API_KEY or the URL is missing or unusable
   */
  static from(variables: Variables, url = variables.AUTH_URL): AdminClient {
    const { ADMIN_API_KEY: key, PLATFORM_APP_ID: appId, PLATFORM_APP_KEY: appKey } = variables;
    if (!key) {
      throw new CommandFailedError(
        'ADMIN_API_KEY is not set. Give it the value that the service has, in the environment or in .env (production reads no .env).',
      );
    }
    if (!HEADER_VALUE.test(key))
      throw new CommandFailedError('ADMIN_API_KEY holds spaces or other characters that no key has.');
    const app = appId && appKey ? { 'X-Platform-App-Id': appId, 'X-Platform-App-Key': appKey } : {};
    if (!Object.values(app).every((value) => HEADER_VALUE.test(value)))
      throw new CommandFailedError('PLATFORM_APP_ID or PLATFORM_APP_KEY holds characters that no credential has.');
    return new AdminClient(parseBaseUrl(url ?? DEFAULT_URL), key, app);
  }

  async get<Body>(path: string, query: Query = {}): Promise<Body> {
    const set = Object.entries(query).filter((pair): pair is [string, string] => pair[1] !== undefined);
    const suffix = set.length > 0 ? `?${new URLSearchParams(set).toString()}` : '';
    return (await this.asAdmin('GET', path + suffix)) as Body;
  }

  /** @returns undefined when there is no such thing */
  async find<Body>(path: string): Promise<Body | undefined> {
    try {
      return await this.get<Body>(path);
    } catch (error) {
      if (error instanceof RefusedError && error.code === 'not_found') return undefined;
      throw error;
    }
  }

  async post<Body>(path: string, body?: object): Promise<Body> {
    return (await this.asAdmin('POST', path, body)) as Body;
  }

  async patch<Body>(path: string, body: object): Promise<Body> {
    return (await withAdvice(this.asAdmin('PATCH', path, body), AGAIN)) as Body;
  }

  async delete(path: string): Promise<void> {
    await withAdvice(this.asAdmin('DELETE', path), AGAIN);
  }

  /**
   * Every item of a list, page after page.
   * @param most items to ask for
   */
  async list<Item>(path: string, query: Query = {}, most = Infinity): Promise<Item[]> {
    const items: Item[] = [];
    let saidAt = Date.now();
    for (let cursor: string | null | undefined; cursor !== null && items.length < most;) {
      const limit = String(Math.min(PAGE_LIMIT, most - items.length));
      const page: { items: Item[]; next_cursor: string | null } = await this.get(path, { ...query, limit, cursor });
      items.push(...page.items);
      cursor = page.next_cursor;
      if (Date.now() - saidAt < PATIENCE_MS) continue;
      say(`… ${items.length} so far`);
      saidAt = Date.now();
    }
    return items;
  }

  /**
   * Presents a node's pair as the node would, which is a use: it ends the overlap when the key is the newer one.
   * @returns `needs_app` when the service wants an app credential with it, and none or no good one was given
   */
  async validateNode({ nodeId, apiKey }: NodePair): Promise<'accepted' | 'refused' | 'needs_app'> {
    const credential = `${nodeId}:${apiKey}`;
    if (!HEADER_VALUE.test(credential)) return 'refused';
    const answer = await callService(this.url, 'POST', '/internal/validate-node', {
      'X-API-Key': credential,
      ...this.appHeaders,
    });
    if (answer.status === 200) return 'accepted';
    const code = readProblem(answer)?.code;
    if (code === 'invalid_app_credentials') return 'needs_app';
    if (code === 'invalid_node_credentials') return 'refused';
    throw toRefusal(this.url, answer);
  }

  private async asAdmin(method: string, path: string, body?: object): Promise<unknown> {
    const answer = await callService(this.url, method, `/api/v0/admin${path}`, { 'X-Admin-Key': this.adminKey }, body);
    if (answer.status === 204 || (answer.status >= 200 && answer.status < 300 && answer.body)) return answer.body;
    throw toRefusal(this.url, answer);
  }
}
