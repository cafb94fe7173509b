/** Services as boxes and app credentials as arrows, laid out and drawn on the server. */
import * as dagre from '@dagrejs/dagre';
import type { VNode } from 'preact';
import type { AppCredentialResponse } from '../api/admin/app-credentials.admin.controller.js';
import { toAddress } from './addresses.js';
import type { Fields } from './console-requests.js';

export const MAP_ADDRESS = '/console/map';
/** How large the drawing is: as wide as the window at most, or by a factor. */
const ZOOMS = [
  ['', 'Fit'],
  ['1', 'Natural size'],
  ['2', 'Twice'],
] as const;
const [MINUTE_MS, DAY_MS] = [60_000, 86_400_000];
const BOX = { height: 36, letterWidth: 9, padding: 24 };

interface Point {
  readonly x: number;
  readonly y: number;
}

export interface MapArrow extends AppCredentialResponse {
  /** Whether the credential was refused in the last hour. */
  readonly isRefused: boolean;
}

type Size = Readonly<Record<'width' | 'height', number>>;

/** The part of dagre that is used here. Its own types name files without the endings that Node.js requires. */
interface LayoutGraph {
  setGraph(options: object): void;
  setNode(name: string, size: Size): void;
  setEdge(from: string, to: string, label: object, id: string): void;
  graph(): Size;
  node(name: string): Point & Size;
  edge(from: string, to: string, id: string): { readonly points: readonly Point[] };
}
const { Graph, layout } = dagre as unknown as {
  readonly Graph: new (options: object) => LayoutGraph;
  readonly layout: (graph: LayoutGraph) => void;
};

export function Drawing({ arrows, query }: { arrows: readonly MapArrow[]; query: Fields }): VNode | null {
  if (arrows.length === 0) return null;
  const graph = computeLayout(arrows);
  const { width, height } = graph.graph();
  const factor = ZOOMS.some(([zoom]) => zoom === query.zoom) ? Number(query.zoom ?? '') : 0;
  const size = { width: width * (factor || 1), height: height * (factor || 1) };
  return (
    <div class={factor > 0 ? 'map zoomed overflow' : 'map overflow'} tabindex={0} role="region" aria-label="Drawing">
      <p>
        {ZOOMS.map(([zoom, name]) => [
          <a
            href={toAddress(MAP_ADDRESS, { ...query, zoom })}
            aria-current={zoom === (factor > 0 ? String(factor) : '') ? 'true' : undefined}
          >
            {name}
          </a>,
          ' ',
        ])}
      </p>
      <svg {...size} viewBox={`0 0 ${width} ${height}`} role="group" aria-label="Services and their keys">
        <Markers />
        {arrows.map((arrow) => (
          <Arrow
            arrow={arrow}
            points={graph.edge(toNodeId(arrow.caller), toNodeId(arrow.target), arrow.app_id).points}
          />
        ))}
        {listServices(arrows).map((name) => (
          <ServiceBox name={name} address={toServiceAddress(name, query)} box={graph.node(toNodeId(name))} />
        ))}
      </svg>
      <p>
        Lines are {[...COLOURS, ...LINES].map(({ legend }) => legend).join('; ')}. A line that begins with a dot is for
        users: the caller may act for them at the target.
      </p>
    </div>
  );
}

/** The ends of lines, at the target and, of a pair for users, at the caller. */
function Markers(): VNode {
  return (
    <>
      <marker
        id="tip"
        viewBox="0 0 10 10"
        refX="9"
        refY="5"
        markerUnits="userSpaceOnUse"
        markerWidth="11"
        markerHeight="11"
        orient="auto"
      >
        <polygon points="0 0 10 5 0 10" fill="currentColor" />
      </marker>
      <marker
        id="for-users"
        viewBox="0 0 10 10"
        refX="5"
        refY="5"
        markerUnits="userSpaceOnUse"
        markerWidth="12"
        markerHeight="12"
      >
        <circle cx="5" cy="5" r="4.5" fill="currentColor" />
      </marker>
    </>
  );
}

function Arrow({ arrow, points }: { arrow: MapArrow; points: readonly Point[] }): VNode {
  const label = `${arrow.caller} calls ${arrow.target}: last used ${arrow.last_used_at ?? 'never'}${arrow.isRefused ? ', refused in the last hour' : ''}${arrow.for_users ? ', for users' : ''}`;
  const line = `M${points.map(({ x, y }) => `${x.toFixed(1)} ${y.toFixed(1)}`).join('L')}`;
  return (
    <a href={`/console/app-credentials/${arrow.app_id}`} aria-label={label}>
      <path class="hit" d={line} />
      <path
        class={toClass(arrow)}
        d={line}
        marker-start={arrow.for_users ? 'url(#for-users)' : undefined}
        marker-end="url(#tip)"
      />
    </a>
  );
}

/** @returns the address of the map of a service and its neighbours, with the other filters of the shown map */
export function toServiceAddress(service: string, { revoked, zoom }: Fields): string {
  return toAddress(MAP_ADDRESS, { service, revoked, zoom });
}

interface BoxProps {
  readonly name: string;
  readonly address: string;
  readonly box: Point & Size;
}

function ServiceBox({ name, address, box: { x, y, width, height } }: BoxProps): VNode {
  return (
    <a href={address}>
      <rect x={x - width / 2} y={y - height / 2} width={width} height={height} rx="6" />
      <text x={x} y={y}>
        {name}
      </text>
    </a>
  );
}

interface Look {
  readonly name: string;
  readonly legend: string;
  readonly holds: (arrow: MapArrow) => boolean;
}

/** The first look that holds decides the colour of an arrow. */
const COLOURS: readonly Look[] = [
  { name: 'bad', legend: 'red: refused in the last hour', holds: ({ isRefused }) => isRefused },
  {
    name: 'warn',
    legend: 'coloured: the key expires, or has two keys',
    holds: ({ revoked_at, expires_at, previous_key_expires_at }) =>
      revoked_at === null && (expires_at !== null || previous_key_expires_at !== null),
  },
];
/** The first look that holds decides the line of an arrow, whatever its colour is. */
const LINES: readonly Look[] = [
  { name: 'revoked', legend: 'dotted: revoked', holds: ({ revoked_at }) => revoked_at !== null },
  { name: 'busy', legend: 'thick: used in the last minute', holds: (arrow) => isUsedWithin(arrow, MINUTE_MS) },
  { name: 'used', legend: 'thin: used in the last day', holds: (arrow) => isUsedWithin(arrow, DAY_MS) },
  { name: 'unused', legend: 'dashed: not used for longer, or never', holds: () => true },
];

function isUsedWithin({ last_used_at }: MapArrow, ms: number): boolean {
  return last_used_at !== null && Date.now() - Date.parse(last_used_at) < ms;
}

function toClass(arrow: MapArrow): string {
  const looks = [COLOURS, LINES].map((group) => group.find(({ holds }) => holds(arrow))?.name);
  return looks.filter((name) => name !== undefined).join(' ');
}

const listServices = (arrows: readonly MapArrow[]): string[] => [
  ...new Set(arrows.flatMap(({ caller, target }) => [caller, target])),
];

/** Dagre looks nodes up in plain objects, which inherit `constructor` and `toString`: both are names that a service may have. */
const toNodeId = (service: string): string => `service ${service}`;

function computeLayout(arrows: readonly MapArrow[]): LayoutGraph {
  const graph = new Graph({ multigraph: true });
  graph.setGraph({ rankdir: 'LR', nodesep: 24, ranksep: 90, marginx: 8, marginy: 8 });
  for (const name of listServices(arrows))
    graph.setNode(toNodeId(name), { width: name.length * BOX.letterWidth + BOX.padding, height: BOX.height });
  for (const { app_id, caller, target } of arrows) graph.setEdge(toNodeId(caller), toNodeId(target), {}, app_id);
  layout(graph);
  return graph;
}
