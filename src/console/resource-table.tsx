/** The table of a list: its orders, its groups, and a check box for each row that the bulk action may change. */
import type { VNode } from 'preact';
import { DESCENDING } from '../foundation/http/page.dto.js';
import { toAddress } from './addresses.js';
import type { Fields } from './console-requests.js';
import { NameLink } from './copyable.js';
import type { Names } from './names.js';
import { showValue, toLabel } from './properties.js';
import { toAddressOf, type ResourceType } from './resource-types.js';
import { Table, type Cells, type Column, type RowGroup } from './tables.js';

/** Puts lamp 2 before lamp 10. */
const NATURAL = new Intl.Collator('en', { numeric: true });

export function getOrder<Resource>({ orders = {} }: ResourceType<Resource>, query: Fields): string | undefined {
  return query.sort ?? Object.values(orders)[0];
}

/** Whether the rows of a group follow each other, also from page to page. */
function isGrouped<Resource>(type: ResourceType<Resource>, query: Fields): boolean {
  return type.groupedBy !== undefined && getOrder(type, query)?.replace(DESCENDING, '') === type.groupedBy;
}

/**
 * @param query the filters of the shown list
 * @returns the headings of rows that have the same value of a field, with the address of their list
 */
export async function nameGroups<Resource>(
  names: Names,
  { address, groupedBy: field }: ResourceType<Resource>,
  items: readonly Resource[],
  query: Fields = {},
): Promise<RowGroup[] | undefined> {
  if (!field) return undefined;
  const ids = items.map((resource) => showValue(resource[field]));
  const found = await names.findNames(ids);
  return ids.map((id) => {
    const text = `${toLabel(field)} ${found.get(id) ?? 'without a name'}`;
    return { id, text, address: toAddress(address, { ...query, cursor: undefined, [field]: id }) };
  });
}

interface ListedResources<Resource> {
  readonly query: Fields;
  readonly items: readonly Resource[];
  /** Those that the bulk action may change. */
  readonly choices: ReadonlySet<Resource>;
  readonly toCells: (resource: Resource) => Cells;
}

export async function renderResourceTable<Resource>(
  names: Names,
  type: ResourceType<Resource>,
  { query, items: listed, choices, toCells }: ListedResources<Resource>,
): Promise<VNode> {
  const { title, head, toId, toName } = type;
  const isInGroups = isGrouped(type, query);
  const items = isInGroups ? listed.toSorted((one, other) => NATURAL.compare(toName(one), toName(other))) : listed;
  const rows = items.map((resource) => [
    ...(choices.size > 0 ? [choices.has(resource) && <Choice id={toId(resource)} name={toName(resource)} />] : []),
    <NameLink address={toAddressOf(type, resource)} name={toName(resource)} />,
    ...toCells(resource),
  ]);
  const columns = [...(choices.size > 0 ? ['Choose'] : []), ...listColumns(type, query, ['Name', ...head])];
  const groups = isInGroups ? await nameGroups(names, type, items, query) : undefined;
  return <Table caption={title} head={columns} rows={rows} groups={groups} />;
}

function Choice({ id, name }: { id: string; name: string }): VNode {
  return <input type="checkbox" name="ids" value={id} aria-label={`Choose ${name}`} />;
}

/** @returns the columns, with links to the other orders of the list */
function listColumns<Resource>(type: ResourceType<Resource>, query: Fields, texts: readonly string[]): Column[] {
  const { address, orders = {}, groupedBy } = type;
  return texts.map((text) => {
    const name = orders[text];
    // A searched part of an e-mail address must not stand in the address of a page.
    if (name === undefined || query.search) return text;
    const now = getOrder(type, query);
    const order = now === name ? 'ascending' : now === name + DESCENDING ? 'descending' : undefined;
    const sort = order === 'ascending' ? name + DESCENDING : name;
    const shown = name === groupedBy ? `${toLabel(name)}, ${text.toLowerCase()}` : text;
    return { text: shown, order, address: toAddress(address, { ...query, cursor: undefined, sort }) };
  });
}
