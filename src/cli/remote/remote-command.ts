// Commands that call the service: what they share of options, and how they print one answer, or a list of any length.
import { Command, Option } from 'commander';
import { type Variables, readVariables, readSecretFiles } from '../../foundation/config/environment.js';
import { addCommand, createNumberParser, NEEDS_ADMIN_KEY, parseServiceUrl } from '../command-options.js';
import { escapeJson, formatFields, Table, type Cell, type TableOptions } from '../tables.js';
import { formatResult, print, refuseNullOutput, say, writeKey, type Output } from '../terminal.js';
import { AdminClient, type Query } from './admin-client.js';
import type { ScopeUseResponse } from '../../api/admin/app-credentials.admin.controller.js';

const DEFAULT_PORT = '7701';
const DEFAULT_LIMIT = 50;
const MAX_LIMIT = 100_000_000;

type Options = Output & { readonly url?: string };

type Item = Readonly<Record<string, Cell | readonly Cell[]>>;

/** What a list reads from the service, and how it shows the items. */
export interface List extends TableOptions<string> {
  readonly path: string;
  /** POST: a search, whose options are sent in the body. */
  readonly method?: 'POST';
  /** What is asked in place of an option of another form, such as the id for an e-mail address. */
  readonly query?: Query;
  readonly columns: readonly string[];
  /**
   * Gets every item, and is asked for a remark after the last one.
   * @returns undefined when there is nothing to remark
   */
  readonly watch?: { add(item: Item): void; describe(): string | undefined } | undefined;
}

export class RemoteCommand extends Command {
  /**
   * Prints the result of a call: as JSON, or as the text that `toText` makes of it.
   * @param work gets a client and the parameters that Commander passes
   */
  answer<Parameters extends unknown[], Result>(
    work: (client: AdminClient, ...parameters: Parameters) => Promise<Result>,
    toText: (result: Result, ...parameters: Parameters) => string,
  ): this {
    return this.action(async (...passed) => {
      const parameters = passed as Parameters;
      const result = await work(createClient(this), ...parameters);
      print(this, result, (it) => toText(it, ...parameters));
    });
  }

  /**
   * As {@link answer}, for a result with a key that is shown only once.
   * @param toRemedy what to do when the result could not be written
   */
  answerKey<Result>(
    work: (client: AdminClient, ...parameters: never[]) => Promise<Result>,
    toText: (result: Result) => string,
    toRemedy: (result: Result) => string,
  ): this {
    return this.action(async (...passed) => {
      refuseNullOutput();
      const result = await work(createClient(this), ...(passed as never[]));
      await writeKey(formatResult(this, result, toText), toRemedy(result));
    });
  }

  /**
   * Prints a list page by page, as a table or as one JSON object whose `has_more` tells whether the limit left items
   * out. Without --limit it prints the first 50 items.
   * @param describe gets a client and the parameters that Commander passes
   */
  list(describe: (client: AdminClient, ...parameters: never[]) => List | Promise<List>): this {
    return this.option('--limit <number>', 'maximum number of items', createNumberParser(1, MAX_LIMIT), DEFAULT_LIMIT)
      .addOption(new Option('--all', 'show every item').conflicts('limit'))
      .action(async (...passed) => {
        const client = createClient(this);
        await this.printList(client, await describe(client, ...(passed as never[])));
      });
  }

  private async printList(
    client: AdminClient,
    { path, method, query: found, columns, watch, ...options }: List,
  ): Promise<void> {
    const { limit, all, ...selecting } = this.opts<{ limit: number; all?: true }>();
    const selected = Object.entries(toParameters(selecting));
    const asked = Object.fromEntries(selected.map(([name, value]) => [name, String(value)]));
    const query: Query = { ...asked, ...found };
    const output = readOptions(this).json ? new JsonList() : new Table(columns, options);
    let hasMore = false;
    for await (const page of client.readPages<Item>(path, query, all ? Infinity : limit, method)) {
      hasMore = page.hasMore;
      for (const item of page.items) watch?.add(item);
      process.stdout.write(output.add(output instanceof Table ? page.items.map(joinLists) : page.items));
    }
    process.stdout.write(output.end(hasMore));
    const remark = watch?.describe();
    if (remark !== undefined) say(remark);
    if (hasMore) say(`Only the first ${limit}: --limit shows more, and --all shows every one.`);
  }
}

/** The service's name of an option, where it differs. */
const PARAMETERS: Readonly<Record<string, string>> = {
  expires: 'expires_at',
  expiresIn: 'expires_in_minutes',
  household: 'household_id',
  member: 'user_id',
  unusedFor: 'unused_since',
};
/** The value with which an operator sets null, which Commander cannot express. */
const NULLS: Readonly<Record<string, string>> = { expires: 'never', scopes: 'all', targets: 'all' };

/** @returns the options of a command under the names of the service */
export function toParameters(options: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const parameters = Object.entries(options).map(([option, value]) => [
    PARAMETERS[option] ?? option.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
    option in NULLS && value === NULLS[option] ? null : value,
  ]);
  return Object.fromEntries(parameters.filter(([name]) => name !== 'url')) as Record<string, unknown>;
}

/** Writes one JSON object while its items arrive. */
class JsonList {
  private separator = '{\n  "items": [';

  add(items: readonly object[]): string {
    const text = items
      .map((item, index) => `${index === 0 ? this.separator : ','}\n    ${escapeJson(JSON.stringify(item))}`)
      .join('');
    if (items.length > 0) this.separator = ',';
    return text;
  }

  end(hasMore: boolean): string {
    const start = this.separator === ',' ? '\n  ' : this.separator;
    return `${start}],\n  "has_more": ${hasMore}\n}\n`;
  }
}

/** Prints lists, such as scopes, in one line. */
function joinLists(item: object): Record<string, Cell> {
  const fields = Object.entries(item) as [string, Cell | readonly (Cell | ScopeUseResponse)[]][];
  return Object.fromEntries(fields.map(([name, value]) => [name, [value].flat().map(toText).join(' ')]));
}

function toText(value: Cell | ScopeUseResponse): Cell {
  return typeof value === 'object' && value ? `${value.scope} (${value.last_used_at ?? 'never'})` : value;
}

/** @param names the fields to show, in their order (default: all) */
export function formatItem(item: object, names: Iterable<string> = Object.keys(item)): string {
  const values = joinLists(item);
  return formatFields(Object.fromEntries(Array.from(names, (name) => [name, values[name]])));
}

/** Adds a command that calls the service. @param example the rest of the line after the name of the command */
export function addRemote(
  parent: Command,
  signature: string,
  description: string,
  example?: string,
  needs = NEEDS_ADMIN_KEY,
): RemoteCommand {
  return addCommand(parent, signature, description, { needs, example }, new RemoteCommand()).option(
    '--url <url>',
    'address of the service (default: AUTH_URL, or INTERNAL_PORT, PORT or 7701 of this machine)',
    parseServiceUrl,
  );
}

/** @returns a client for the service that --url or AUTH_URL names */
export function createClient(command: Command): AdminClient {
  const variables = readRemoteVariables();
  return AdminClient.from(getServiceUrl(command, variables), variables);
}

/** The environment, or the `.env`, may be that of a service on the same machine, so its ports count. */
export function getServiceUrl(command: Command, { AUTH_URL, INTERNAL_PORT, PORT }: Variables): string {
  return readOptions(command).url ?? AUTH_URL ?? `http://127.0.0.1:${INTERNAL_PORT ?? PORT ?? DEFAULT_PORT}`;
}

export function readRemoteVariables(): Variables {
  return readSecretFiles(readVariables(), ['ADMIN_API_KEY']);
}

export function readOptions(command: Command): Options {
  return command.optsWithGlobals<Options>();
}
