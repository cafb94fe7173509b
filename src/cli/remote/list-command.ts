// Commands that print a list of any length: each page as it arrives, the first 50 items unless more are asked for.
import { Option, type Command } from 'commander';
import { createNumberParser } from '../command-options.js';
import { Table, type Cell, type TableOptions } from '../tables.js';
import { say } from '../terminal.js';
import { createClient, readOptions, type Query } from './admin-client.js';
import type { ScopeUseResponse } from '../../admin/app-credentials.admin.controller.js';

const DEFAULT_LIMIT = 50;
const MAX_LIMIT = 100_000_000;

interface ListOptions {
  readonly limit: number;
  readonly all?: true;
}

export type Item = Readonly<Record<string, Cell | readonly Cell[]>>;

/** What is read from the service, and how its items are shown. */
export interface List extends TableOptions<string> {
  readonly path: string;
  readonly query?: Query;
  readonly columns: readonly string[];
  /** Gets every item, and is read after the last one. @returns what to tell about them all */
  readonly watch?: { add(item: Item): void; describe(): string | undefined } | undefined;
}

export function addLimits(command: Command): Command {
  return command
    .option('--limit <number>', 'maximum number of items', createNumberParser(1, MAX_LIMIT), DEFAULT_LIMIT)
    .addOption(new Option('--all', 'show every item').conflicts('limit'));
}

/** @param filters the parameter of the service for each option */
export function toQuery(options: object, filters: Readonly<Record<string, string>>): Query {
  const given = Object.entries(options as Record<string, unknown>).filter(([option]) => option in filters);
  return Object.fromEntries(given.map(([option, value]) => [filters[option] ?? option, String(value)]));
}

/** Prints a list as a table, or as one JSON object whose `has_more` tells whether the limit left items out. */
export async function printList(command: Command, { path, query, columns, watch, ...options }: List): Promise<void> {
  const { limit, all } = command.opts<ListOptions>();
  const output = readOptions(command).json ? new JsonList() : new Table(columns, options);
  let hasMore = false;
  for await (const page of createClient(command).readPages<Item>(path, query, all ? Infinity : limit)) {
    hasMore = page.hasMore;
    for (const item of page.items) watch?.add(item);
    process.stdout.write(output.add(output instanceof Table ? page.items.map(joinLists) : page.items));
  }
  process.stdout.write(output.end(hasMore));
  const remark = watch?.describe();
  if (remark !== undefined) say(remark);
  if (hasMore) say(`Only the first ${limit}: --limit shows more, and --all shows every one.`);
}

/** The text of one JSON object, while its items arrive. */
class JsonList {
  private separator = '{\n  "items": [';

  add(items: readonly object[]): string {
    const text = items
      .map((item, index) => `${index === 0 ? this.separator : ','}\n    ${JSON.stringify(item)}`)
      .join('');
    if (items.length > 0) this.separator = ',';
    return text;
  }

  end(hasMore: boolean): string {
    const start = this.separator === ',' ? '\n  ' : this.separator;
    return `${start}],\n  "has_more": ${hasMore}\n}\n`;
  }
}

/** Scopes and targets stand in one line of a table. */
export function joinLists(item: object): Record<string, Cell> {
  const fields = Object.entries(item) as [string, Cell | readonly (Cell | ScopeUseResponse)[]][];
  return Object.fromEntries(fields.map(([name, value]) => [name, [value].flat().map(toText).join(' ')]));
}

function toText(value: Cell | ScopeUseResponse): Cell {
  return typeof value === 'object' && value ? `${value.scope} (${value.last_used_at ?? 'never'})` : value;
}
