import { join } from 'node:path';
import * as z from 'zod';
import { KEY_KINDS, type KeyKindName } from '../../foundation/common/key-kinds.js';
import type { Variables } from '../../foundation/config/environment.js';
import { HEADER_VALUE } from '../../foundation/config/variable-kinds.js';
import type { NodePair } from './node-config-file.js';
import {
  callService,
  isFailure,
  joinPath,
  parseBaseUrl,
  readProblem,
  toServiceError,
  UNEXPECTED,
  withAdvice,
} from '../http-client.js';
import { CommandFailedError, say } from '../terminal.js';

const PROGRESS_INTERVAL_MS = 1_000;
const MAX_PAGE_SIZE = 100;
const MAX_ITEMS_IN_MEMORY = 1_000_000;
const anObject = z.object({});
const aPage = z.object({ items: z.array(anObject), next_cursor: z.string().nullable() });
/** Under HS256 the list is empty. */
const jwks = z.object({ keys: z.array(z.unknown()) });
export const IDEMPOTENT_ADVICE = 'Run this again: the change is idempotent.';

export type Query = Readonly<Record<string, string | undefined>>;

interface ListPage<Item> {
  readonly items: Item[];
  readonly hasMore: boolean;
}

/** Calls the service over HTTP, at the admin door, from any machine. */
export class AdminClient {
  private constructor(
    readonly url: string,
    private readonly adminKey: string,
    private readonly appHeaders: Readonly<Record<string, string>>,
  ) {}

  /**
   * @throws {CommandFailedError} when ADMIN_API_KEY or the URL is missing or unusable
   */
  static from(url: string, variables: Variables): AdminClient {
    const { ADMIN_API_KEY: key, PLATFORM_APP_ID: appId, PLATFORM_APP_KEY: appKey } = variables;
    const refuse = (message: string): never => {
      throw new CommandFailedError(message, 'configuration_unusable');
    };
    const advice =
      'Set it to the value that the service has, in the environment or in .env (production reads no .env).';
    if (!key) return refuse(`ADMIN_API_KEY is not set, and ${join(process.cwd(), '.env')} does not set it. ${advice}`);
    // Checked before fetch, whose error would quote the value, which is a secret.
    if (!HEADER_VALUE.test(key)) refuse('ADMIN_API_KEY holds spaces or other characters that are not valid in a key.');
    const app = appId && appKey ? { 'X-Platform-App-Id': appId, 'X-Platform-App-Key': appKey } : {};
    if (!Object.values(app).every((value) => HEADER_VALUE.test(value)))
      refuse('PLATFORM_APP_ID or PLATFORM_APP_KEY holds characters that are not valid in a credential.');
    return new AdminClient(parseBaseUrl(url), key, app);
  }

  async get<Body>(path: string, query: Query = {}): Promise<Body> {
    const set = Object.entries(query).filter((pair): pair is [string, string] => pair[1] !== undefined);
    const suffix = set.length > 0 ? `?${new URLSearchParams(set).toString()}` : '';
    return (await this.callAsAdmin('GET', path + suffix)) as Body;
  }

  /** @returns undefined when it does not exist */
  async find<Body>(path: string): Promise<Body | undefined> {
    try {
      return await this.get<Body>(path);
    } catch (error) {
      if (isFailure(error, 'not_found')) return undefined;
      throw error;
    }
  }

  /**
   * @returns the body of an open route; undefined when the service does not have the route
   * @throws {CommandFailedError} when the answer does not tell whether it has the route
   */
  async getOpen(path: string): Promise<unknown> {
    const answer = await callService(this.url, path, { method: 'GET' });
    if (answer.status === 200 && answer.body) return answer.body;
    if (answer.status === 404 && readProblem(answer)?.code === 'not_found') return undefined;
    throw toServiceError(this.url, answer);
  }

  /** @param advice what to do when no answer came; it must be right whether or not the service made the change */
  async post<Body>(path: string, body?: object, advice?: string): Promise<Body> {
    const call = this.callAsAdmin('POST', path, body);
    return (await (advice === undefined ? call : withAdvice(call, advice))) as Body;
  }

  async patch<Body>(path: string, body: object): Promise<Body> {
    return (await withAdvice(this.callAsAdmin('PATCH', path, body), IDEMPOTENT_ADVICE)) as Body;
  }

  async put<Body>(path: string, body: object): Promise<Body> {
    return (await withAdvice(this.callAsAdmin('PUT', path, body), IDEMPOTENT_ADVICE)) as Body;
  }

  async delete(path: string): Promise<void> {
    await withAdvice(this.callAsAdmin('DELETE', path), IDEMPOTENT_ADVICE);
  }

  /** @returns the public keys of the JWKS; none under HS256 */
  async listSigningKeys(): Promise<readonly unknown[]> {
    return this.requireShape(jwks, await this.getOpen('/.well-known/jwks.json')).keys;
  }

  /** @throws {CommandFailedError} when this service never sends such a body */
  requireShape<Body>(schema: z.ZodType<Body>, body: unknown): Body {
    if (schema.safeParse(body).success) return body as Body;
    throw this.createAddressError('does not answer as this service does');
  }

  /** @param method POST for a search, whose query is sent in the body */
  async *readPages<Item>(
    path: string,
    query: Query = {},
    maxItems = Infinity,
    method: 'GET' | 'POST' = 'GET',
  ): AsyncGenerator<ListPage<Item>> {
    let cursor: string | null | undefined;
    // Brent's algorithm detects a cycle of cursors of any length, and remembers one cursor.
    let [landmark, pages, pagesAtLandmark]: [typeof cursor, number, number] = [undefined, 0, 1];
    for (let left = maxItems; cursor !== null && left > 0;) {
      const limit = String(Math.min(MAX_PAGE_SIZE, left));
      const asked = { ...query, limit, cursor };
      const answer = method === 'GET' ? await this.get(path, asked) : await this.post(path, asked);
      const page = this.requireShape(aPage, answer);
      const { items, next_cursor } = page as { items: Item[]; next_cursor: string | null };
      // Otherwise the command would ask a faulty server for ever.
      if (next_cursor !== null && (next_cursor === landmark || items.length === 0))
        throw this.createAddressError('answers with a list that never ends');
      cursor = next_cursor;
      if (++pages === pagesAtLandmark) [landmark, pagesAtLandmark] = [cursor, pages * 2];
      left -= items.length;
      yield { items, hasMore: cursor !== null };
    }
  }

  /** Reads all items into memory. */
  async list<Item>(path: string, query: Query = {}, maxItems = Infinity, method?: 'GET' | 'POST'): Promise<Item[]> {
    const items: Item[] = [];
    let saidAt = Date.now();
    for await (const page of this.readPages<Item>(path, query, maxItems, method)) {
      for (const item of page.items) items.push(item);
      if (items.length > MAX_ITEMS_IN_MEMORY)
        throw this.createAddressError(`lists more than ${MAX_ITEMS_IN_MEMORY} items`);
      if (!page.hasMore || Date.now() - saidAt < PROGRESS_INTERVAL_MS) continue;
      say(`… ${items.length} so far`);
      saidAt = Date.now();
    }
    return items;
  }

  /**
   * Validates a node's pair, at its first target if it has targets. This is a use: with the new key it ends the
   * overlap.
   * @returns `needs_app` when the service also requires an app credential, and no valid one is set
   */
  async validateNode(
    { nodeId, apiKey }: NodePair,
    targets: readonly string[] | null,
  ): Promise<'accepted' | 'refused' | 'needs_app'> {
    const credential = `${nodeId}:${apiKey}`;
    if (!HEADER_VALUE.test(credential)) return 'refused';
    const answer = await callService(this.url, '/internal/validate-node', {
      method: 'POST',
      headers: { 'X-API-Key': credential, ...(targets && { 'X-Platform-Target': targets[0] }), ...this.appHeaders },
    });
    if (answer.status === 200) return 'accepted';
    const code = readProblem(answer)?.code;
    if (code === 'invalid_app_credentials') return 'needs_app';
    if (code === 'invalid_node_credentials') return 'refused';
    throw toServiceError(this.url, answer);
  }

  private async callAsAdmin(method: string, path: string, body?: object): Promise<unknown> {
    const headers = { 'X-Admin-Key': this.adminKey };
    const answer = await callService(this.url, `/api/v0/admin${path}`, { method, headers, body });
    const { status } = answer;
    if (status === 204 || (status >= 200 && status < 300 && anObject.safeParse(answer.body).success))
      return answer.body;
    throw toServiceError(this.url, answer, path);
  }

  private createAddressError(why: string): CommandFailedError {
    return new CommandFailedError(`${this.url} ${why}. Is the address right?`, UNEXPECTED);
  }
}

export type ResourceType = 'user' | 'household' | KeyKindName;
type View = Readonly<Record<string, string>>;
const PATHS = { user: '/users', household: '/households' } as const;

const PARALLEL = 10;

/** Works on all items, ten at a time. */
export async function runInParallel<Item>(items: readonly Item[], work: (item: Item) => Promise<void>): Promise<void> {
  for (let start = 0; start < items.length; start += PARALLEL)
    await Promise.all(items.slice(start, start + PARALLEL).map(work));
}

function toName(type: ResourceType, view: View): string | undefined {
  if (type === 'user') return view.email;
  if (type === 'household') return view.name;
  return type === 'operator' ? `operator:${view.name}` : KEY_KINDS[type].toOwner(view);
}

export type Reference = Readonly<{ type: ResourceType; id: string }>;

/** Caches the names of users, of households and of the holders of keys by their ids. */
export class Names {
  private readonly known = new Map<string, string>();

  constructor(private readonly client: AdminClient) {}

  /** Looks up all ids that are not known yet. */
  async learn(references: readonly Reference[]): Promise<void> {
    const unknown = new Map(references.filter(({ id }) => !this.known.has(id)).map((each) => [each.id, each]));
    await runInParallel([...unknown.values()], async (reference) => this.lookUp(reference));
  }

  /** @returns the name, or the id when its user, node or app was deleted */
  get(id: string | null): string {
    return this.known.get(id ?? '') ?? id ?? '';
  }

  private async lookUp({ type, id }: Reference): Promise<void> {
    const path = type === 'user' || type === 'household' ? PATHS[type] : KEY_KINDS[type].path;
    const view = await this.client.find<View>(joinPath(path, id));
    this.known.set(id, (view && toName(type, view)) ?? id);
  }
}
