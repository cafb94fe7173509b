/** Who calls whom: services as boxes, app credentials as arrows, drawn on the server; and the same as a table. */
import { Get, Query, Req, Res } from '@nestjs/common';
import * as dagre from '@dagrejs/dagre';
import type { Request, Response } from 'express';
import type { VNode } from 'preact';
import type { AppCredentialResponse } from '../api/admin/app-credentials.admin.controller.js';
import { AdminApi } from './admin-api.js';
import { ConsolePages, getSession, type Fields } from './console-requests.js';
import { State } from './credential-pages.js';
import { readEvents } from './audit.js';
import { Ago } from './moments.js';
import { Filters, Page, Pager, sendPage, Table, toAddress } from './view.js';

const ADDRESS = '/console/map';
const FILTERS = [
  { label: 'Only a service and its neighbours', name: 'service' },
  { label: 'Revoked keys', name: 'revoked', options: { '': 'not shown', true: 'shown too' } },
];
/** More arrows are not readable and take long to lay out, so the page asks for a service. */
const MAX_ARROWS = 100;
const [MINUTE_MS, DAY_MS] = [60_000, 86_400_000];
const BOX = { height: 36, letterWidth: 9, padding: 24 };

interface Point {
  readonly x: number;
  readonly y: number;
}

interface MapArrow extends AppCredentialResponse {
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
  nodes(): string[];
  node(name: string): Point & Size;
  edge(from: string, to: string, id: string): { readonly points: readonly Point[] };
}
const { Graph, layout } = dagre as unknown as {
  readonly Graph: new (options: object) => LayoutGraph;
  readonly layout: (graph: LayoutGraph) => void;
};

@ConsolePages('console/map')
export class MapPage {
  constructor(private readonly api: AdminApi) {}

  @Get()
  async show(@Req() request: Request, @Res() response: Response, @Query() query: Fields): Promise<void> {
    const { arrows, next } = await this.readArrows(request, query, await this.listRefused(request));
    sendPage(
      response,
      <Page title="Map" session={getSession(request)} at={ADDRESS} needs={['apps', 'read']}>
        <Filters action={ADDRESS} fields={FILTERS} query={query} />
        {next !== null && (
          <p role="note">
            {query.service ? (
              <>
                There are more arrows than these: see the keys{' '}
                <a href={toAddress('/console/app-credentials', { caller: query.service })}>that it uses</a> and{' '}
                <a href={toAddress('/console/app-credentials', { target: query.service })}>
                  that others use to call it
                </a>
                .
              </>
            ) : (
              `There are more than ${MAX_ARROWS} arrows. Choose a service, here or in the table.`
            )}
          </p>
        )}
        {(query.service || (next === null && !query.cursor)) && <Drawing arrows={arrows} />}
        <ArrowTable arrows={arrows} />
        {!query.service && <Pager address={ADDRESS} query={query} next={next} />}
      </Page>,
    );
  }

  /** @returns the ids of the credentials that were refused in the last hour */
  private async listRefused(request: Request): Promise<Set<string | null>> {
    const since = new Date(Date.now() - 60 * MINUTE_MS).toISOString();
    const events = await readEvents(this.api, request, { event: 'app.validation.failed', since }, MAX_ARROWS);
    return new Set(events?.map(({ subject }) => subject));
  }

  /** @returns the credentials that a service uses, and those with which others call it */
  private async readArrows(
    request: Request,
    { service, revoked, cursor }: Fields,
    refused: ReadonlySet<string | null>,
  ) {
    const sides = service ? [{ caller: service }, { target: service }] : [{ cursor }];
    const arrows = new Map<string, MapArrow>();
    let next: string | null = null;
    for (const side of sides) {
      const filter = { ...side, live: revoked ? undefined : 'true', limit: String(MAX_ARROWS / sides.length) };
      const page = await this.api.bindTo(request).appCredentials.listAppCredentials(filter);
      for (const item of page.items) arrows.set(item.app_id, { ...item, isRefused: refused.has(item.app_id) });
      next ??= page.next_cursor;
    }
    return { arrows: [...arrows.values()], next };
  }
}

/** The first look that holds decides how an arrow is drawn. */
const LOOKS: readonly { name: string; legend: string; holds: (arrow: MapArrow) => boolean }[] = [
  { name: 'bad', legend: 'red: refused in the last hour', holds: ({ isRefused }) => isRefused },
  { name: 'revoked', legend: 'dotted: revoked', holds: ({ revoked_at }) => revoked_at !== null },
  {
    name: 'warn',
    legend: 'coloured: the key expires, or has two keys',
    holds: ({ expires_at, previous_key_expires_at }) => expires_at !== null || previous_key_expires_at !== null,
  },
  { name: 'busy', legend: 'thick: used in the last minute', holds: (arrow) => isUsedWithin(arrow, MINUTE_MS) },
  { name: 'used', legend: 'thin: used in the last day', holds: (arrow) => isUsedWithin(arrow, DAY_MS) },
  { name: 'unused', legend: 'dashed: not used for longer, or never', holds: () => true },
];

function isUsedWithin({ last_used_at }: MapArrow, ms: number): boolean {
  return last_used_at !== null && Date.now() - Date.parse(last_used_at) < ms;
}

function toClass(arrow: MapArrow): string {
  return LOOKS.find(({ holds }) => holds(arrow))?.name ?? '';
}

function computeLayout(arrows: readonly MapArrow[]): LayoutGraph {
  const graph = new Graph({ multigraph: true });
  graph.setGraph({ rankdir: 'LR', nodesep: 24, ranksep: 90, marginx: 8, marginy: 8 });
  for (const name of new Set(arrows.flatMap(({ caller, target }) => [caller, target])))
    graph.setNode(name, { width: name.length * BOX.letterWidth + BOX.padding, height: BOX.height });
  for (const { app_id, caller, target } of arrows) graph.setEdge(caller, target, {}, app_id);
  layout(graph);
  return graph;
}

function Drawing({ arrows }: { arrows: readonly MapArrow[] }): VNode | null {
  if (arrows.length === 0) return null;
  const graph = computeLayout(arrows);
  const { width, height } = graph.graph();
  return (
    <div class="map overflow" tabindex={0} role="region" aria-label="Drawing of the map">
      <svg width={width} height={height} role="group" aria-label="Services and their keys">
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
        {arrows.map((arrow) => (
          <Arrow arrow={arrow} points={graph.edge(arrow.caller, arrow.target, arrow.app_id).points} />
        ))}
        {graph.nodes().map((name) => (
          <ServiceBox name={name} box={graph.node(name)} />
        ))}
      </svg>
      <p>Lines are {LOOKS.map(({ legend }) => legend).join('; ')}.</p>
    </div>
  );
}

function Arrow({ arrow, points }: { arrow: MapArrow; points: readonly Point[] }): VNode {
  const label = `${arrow.caller} calls ${arrow.target}: last used ${arrow.last_used_at ?? 'never'}${arrow.isRefused ? ', refused in the last hour' : ''}`;
  const line = `M${points.map(({ x, y }) => `${x.toFixed(1)} ${y.toFixed(1)}`).join('L')}`;
  return (
    <a href={`/console/app-credentials/${arrow.app_id}`} aria-label={label}>
      <path class="hit" d={line} />
      <path class={toClass(arrow)} d={line} marker-end="url(#tip)" />
    </a>
  );
}

function ServiceBox({ name, box: { x, y, width, height } }: { name: string; box: Point & Size }): VNode {
  return (
    <a href={toAddress(ADDRESS, { service: name })}>
      <rect x={x - width / 2} y={y - height / 2} width={width} height={height} rx="6" />
      <text x={x} y={y}>
        {name}
      </text>
    </a>
  );
}

function ArrowTable({ arrows }: { arrows: readonly MapArrow[] }): VNode {
  const rows = arrows.map((arrow) => [
    <a href={toAddress(ADDRESS, { service: arrow.caller })}>{arrow.caller}</a>,
    <a href={toAddress(ADDRESS, { service: arrow.target })}>{arrow.target}</a>,
    <>
      <State of={arrow} /> {arrow.isRefused && <span class="bad">refused in the last hour</span>}
    </>,
    <Ago at={arrow.last_used_at} />,
    <a href={`/console/app-credentials/${arrow.app_id}`}>
      Key of {arrow.caller} for {arrow.target}
    </a>,
  ]);
  return <Table caption="The map as a table" head={['Caller', 'Target', 'State', 'Last used', 'Key']} rows={rows} />;
}
