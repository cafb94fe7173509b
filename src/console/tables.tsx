/** Tables of lists, with their groups and orders, and the facts of one resource. */
import type { ComponentChildren, VNode } from 'preact';
import { toAddress } from './addresses.js';
import { Id } from './copyable.js';

/** The heading of rows that belong together. */
export interface RowGroup {
  readonly id: string;
  readonly text: string;
  readonly address: string;
}

export type Cells = readonly ComponentChildren[];

interface SortedColumn {
  readonly text: string;
  /** The address of the list, sorted by this column or in the opposite direction. */
  readonly address: string;
  /** The present order of the list by this column. */
  readonly order: 'ascending' | 'descending' | undefined;
}

export type Column = string | SortedColumn;

interface TableProps {
  readonly caption: string;
  readonly head: readonly Column[];
  readonly rows: readonly Cells[];
  /** The group of each row. Rows of one group stand together, at the place of the first one. */
  readonly groups?: readonly RowGroup[] | undefined;
}

export function Table({ caption, head, rows, groups }: TableProps): VNode {
  if (rows.length === 0) return <p>{caption}: none.</p>;
  return (
    <div class="overflow" tabindex={0} role="region" aria-label={caption}>
      <table>
        <caption>{caption}</caption>
        <thead>
          <tr>{head.map(toHeading)}</tr>
        </thead>
        {groups ? groupRows(rows, groups, head.length) : <tbody>{rows.map(toRow)}</tbody>}
      </table>
    </div>
  );
}

function toHeading(column: Column): VNode {
  if (typeof column === 'string') return <th scope="col">{column}</th>;
  const { text, address, order } = column;
  return (
    <th scope="col" aria-sort={order}>
      <a href={address}>
        {text}
        {order && <span aria-hidden="true">{order === 'ascending' ? ' ↑' : ' ↓'}</span>}
      </a>
    </th>
  );
}

function groupRows(rows: readonly Cells[], groups: readonly RowGroup[], width: number): VNode[] {
  const headings = new Map(groups.map((group) => [group.id, group]));
  return [...headings.values()].map(({ id, text, address }) => (
    <tbody>
      <tr>
        <th scope="rowgroup" colspan={width}>
          <a href={address}>{text}</a> <Id id={id} />
        </th>
      </tr>
      {rows.filter((_, index) => groups[index]?.id === id).map(toRow)}
    </tbody>
  ));
}

function toRow(cells: Cells): VNode {
  return (
    <tr>
      {cells.map((cell) => (
        <td>{cell}</td>
      ))}
    </tr>
  );
}

export type FactList = readonly (readonly [name: string, value: ComponentChildren])[];

export function Facts({ facts }: { facts: FactList }): VNode {
  return (
    <dl>
      {facts.map(([name, value]) => (
        <div>
          <dt>{name}</dt>
          <dd>{value ?? '–'}</dd>
        </div>
      ))}
    </dl>
  );
}

export function Pager({ address, query, next }: { address: string; query: object; next: string | null }): VNode | null {
  if (next === null) return null;
  return (
    <p>
      <a href={toAddress(address, { ...query, cursor: next })} rel="next">
        Next page
      </a>
    </p>
  );
}
