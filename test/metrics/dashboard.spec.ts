import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { eventually } from '../../tools/eventually.js';
import { scrape, type Scrape } from '../support/scrape.js';
import { TestApp } from '../support/test-app.js';
import { fromRoot } from '../support/from-root.js';

const ROOT = fromRoot('.');
/** The labels that Prometheus adds to every sample. */
const OF_PROMETHEUS = ['instance', 'job'];
const NAME = /platform_auth_[a-z0-9_]+/g;

interface Panel {
  readonly title: string;
  readonly type: string;
  readonly gridPos: { x: number; y: number; w: number; h: number };
  readonly targets?: { expr: string; legendFormat: string }[];
}

interface Rule {
  readonly alert: string;
  readonly expr: string;
  readonly annotations: Record<string, string>;
}

const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8');
const dashboard = JSON.parse(read('deploy/grafana/platform-auth.json')) as { panels: Panel[]; templating: object };
const panels = dashboard.panels.filter(({ type }) => type !== 'row');
const rules = (parse(read('deploy/prometheus/alerts.yml')) as { groups: { rules: Rule[] }[] }).groups.flatMap(
  (group) => group.rules,
);

/** Queries with the templates that show their labels. */
const queries = [
  ...panels.flatMap(({ title, targets = [] }) =>
    targets.map(({ expr, legendFormat }) => ({
      where: title,
      expr,
      shown: [...legendFormat.matchAll(/\{\{(\w+)\}\}/g)],
    })),
  ),
  ...rules.map(({ alert, expr, annotations }) => ({
    where: alert,
    expr,
    shown: [
      ...Object.values(annotations)
        .join(' ')
        .matchAll(/\{\{ \$labels\.(\w+) \}\}/g),
    ],
  })),
];

/** Names of metrics of this service. */
const namesIn = (expr: string): string[] => expr.match(NAME) ?? [];

/** Labels that a query selects or groups by, each with the metrics of the query. */
function labelsIn(expr: string): string[] {
  const selected = [...expr.matchAll(/(\w+)\s*(?:=~|!~|!=|=)\s*"/g)].map((match) => match[1]!);
  const grouped = [...expr.matchAll(/\b(?:by|on|ignoring|without)\s*\(([^)]*)\)/g)].flatMap((match) =>
    match[1]!.split(',').map((label) => label.trim()),
  );
  return [...selected, ...grouped];
}

describe('the dashboard, the alerts and docs/observability.md', () => {
  let seen: Scrape;

  beforeAll(async () => {
    const variables = { METRICS_PORT: '0', LOGGING_SERVICE_URL: 'http://127.0.0.1:9/logs' };
    const app = await TestApp.start({ variables });
    try {
      await app.validateNode('no:node').expect(401);
      await app.refresh('no token').expect(401);
      await eventually('all is counted', async () => {
        seen = await scrape(app);
        return seen.value('flow_refusals_total', { event: 'session.refresh.refused', reason: 'malformed' }) === 1;
      });
    } finally {
      await app.stop();
    }
  });

  it('have queries', () => {
    expect(panels.length).toBeGreaterThan(12);
    expect(rules.length).toBeGreaterThan(5);
    expect(queries.filter(({ expr }) => !/platform_auth_|\bup\{job="platform-auth"\}/.test(expr))).toEqual([]);
  });

  it('query only series that /metrics exports', () => {
    const asked = [read('deploy/grafana/platform-auth.json'), read('deploy/prometheus/alerts.yml')].join('\n');
    const names = new Set(asked.match(NAME));
    expect([...names].filter((name) => !seen.labels.has(name))).toEqual([]);
  });

  it('use only labels that those series have', () => {
    const wrong = queries.flatMap(({ where, expr }) => {
      const known = new Set([...OF_PROMETHEUS, ...namesIn(expr).flatMap((name) => [...seen.labels.get(name)!])]);
      return labelsIn(expr)
        .filter((label) => !known.has(label))
        .map((label) => `${where}: ${label}`);
    });
    expect(wrong).toEqual([]);
  });

  it('print only labels that remain after grouping', () => {
    const wrong = queries.flatMap(({ where, expr, shown }) => {
      const isAggregated = /\b(sum|max|min)\b/.test(expr);
      const left = isAggregated
        ? labelsIn(expr)
        : [...OF_PROMETHEUS, ...namesIn(expr).flatMap((name) => [...seen.labels.get(name)!])];
      return shown.filter(([, label]) => !left.includes(label!)).map(([, label]) => `${where}: ${label}`);
    });
    expect(wrong).toEqual([]);
  });

  it('use rate() for counters and not for gauges', () => {
    const wrong = queries.flatMap(({ where, expr }) =>
      namesIn(expr)
        .filter((name) => {
          const isCumulative = /_(total|bucket|count|sum)$/.test(name);
          return isCumulative !== new RegExp(`(rate|increase)\\(\\s*${name}\\b`).test(expr);
        })
        .map((name) => `${where}: ${name}`),
    );
    expect(wrong).toEqual([]);
  });

  it('have balanced brackets and panels that do not overlap', () => {
    for (const { expr } of queries) expect(expr.replace(/[^(]/g, '').length).toBe(expr.replace(/[^)]/g, '').length);
    const cells = dashboard.panels.flatMap(({ gridPos: { x, y, w, h } }) =>
      Array.from({ length: w * h }, (_, i) => `${x + (i % w)},${y + Math.floor(i / w)}`),
    );
    expect(new Set(cells).size).toBe(cells.length);
  });

  it('cover the essential metrics', () => {
    const all = queries.map(({ expr }) => expr).join('\n');
    const watched = [
      'http_requests_total',
      'duration_seconds_bucket',
      'verdicts_total',
      'hashing_queued',
      'live_sessions',
    ];
    const more = ['database_connections', 'eventloop_lag_p99', 'log_delivering', 'log_delivery_validations_total'];
    expect([...watched, ...more].filter((name) => !all.includes(name))).toEqual([]);
  });

  it('document every metric with its labels', () => {
    const rows = [...read('docs/observability.md').matchAll(/^\| `(platform_auth_\w+)` \| ([^|]*)\|/gm)];
    const documented = new Map(rows.map(([, name, labels]) => [name!, (labels!.match(/\w+/g) ?? []).sort()]));
    expect(documented.size).toBe(rows.length);
    expect(seen.names.filter((name) => !documented.has(name))).toEqual([]);
    const ofNode = /^platform_auth_(nodejs|process)_/;
    const gone = [...documented.keys()].filter((name) => !ofNode.test(name) && !seen.names.includes(name));
    expect(gone).toEqual([]);
    for (const name of seen.names.filter((own) => !ofNode.test(own))) {
      const labels = new Set([...(seen.labels.get(name) ?? []), ...(seen.labels.get(`${name}_bucket`) ?? [])]);
      labels.delete('le');
      expect({ name, labels: documented.get(name) }).toEqual({ name, labels: [...labels].sort() });
    }
  });
});
