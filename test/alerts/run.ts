// Proves the alerts of deploy/prometheus with the series that the built service really exposes, and sends every query of
// the dashboard to a real Prometheus. Needs `promtool` and `prometheus` (Debian: prometheus). The last line counts.
import { spawnSync } from 'node:child_process';
import { Checks } from '../../tools/checks.js';
import type { Cleanup } from '../../tools/cleanup.js';
import { eventually } from '../../tools/eventually.js';
import { makeTemporaryFolder } from '../../tools/postgres.js';
import { PANEL_QUERIES, Prometheus, type PanelQuery } from './dashboard.js';
import { scrape, type Exposition } from './exposition.js';
import { constant, expectAlerts, promtool, RULES, RULES_FILE } from './rules.js';
import { computedScenarios, recordedScenarios, type History, type Scenario } from './scenarios.js';
import { startWatchedService, stealRefreshToken, validateNode, type WatchedService } from './service.js';

const WELL_MINUTES = [1, 10, 30];
const checks = new Checks();

/** Scrapes until the exposition is as expected: a request is counted just after its response is sent. */
async function scrapeUntil({ metricsUrl }: WatchedService, series: string, value: string): Promise<Exposition> {
  let samples: Exposition = new Map();
  const seen = (): string => samples.get(series)?.value ?? 'missing';
  await eventually(
    () => `${series} is ${value}: it is ${seen()}`,
    async () => {
      ({ samples } = await scrape(metricsUrl));
      return seen() === value;
    },
  );
  return samples;
}

/** Replaces the measured lag of the event loop: other work on the machine delays it, which the scenarios do not test. */
function calm(samples: Exposition): Exposition {
  const series = 'platform_auth_nodejs_eventloop_lag_p99_seconds{}';
  const sample = samples.get(series);
  if (!sample) throw new Error(`${series} is missing`);
  return new Map(samples).set(series, { ...sample, value: '0.01' });
}

async function record(service: WatchedService): Promise<History> {
  await validateNode(service, 401);
  const refused = 'platform_auth_verdicts_total{door="node",reason="unknown"}';
  const idle = calm(await scrapeUntil(service, refused, '1'));
  await stealRefreshToken(service);
  const reused = 'platform_auth_flow_refusals_total{event="session.refresh.reused",reason="reused"}';
  const afterTheft = await scrapeUntil(service, reused, '1');
  await service.query('ALTER TABLE nodes RENAME TO gone');
  await validateNode(service, 500);
  await service.query('ALTER TABLE gone RENAME TO nodes');
  const afterFailure = await scrapeUntil(service, 'platform_auth_http_failures_total{status="500"}', '1');
  await service.cutDatabase();
  const inOutage = await scrapeUntil(service, 'platform_auth_database_up{}', '0');
  return { idle, afterTheft, afterFailure, inOutage };
}

async function checkRules(folder: string, history: History): Promise<void> {
  await checks.run('promtool accepts the rules', () => promtool('check', 'rules', RULES_FILE));
  await checks.run('while all is well, all alerts are silent', () =>
    expectAlerts(
      folder,
      constant(history.idle),
      RULES.flatMap(({ alert }) => WELL_MINUTES.map((minute) => ({ alert, minute, labels: undefined }))),
    ),
  );
  const scenarios: Scenario[] = [...recordedScenarios(history), ...computedScenarios(history.idle)];
  for (const { name, values, expectations } of scenarios) {
    await checks.run(name, () => expectAlerts(folder, values, expectations));
  }
  const fired = new Set(
    scenarios.flatMap(({ expectations }) => expectations.filter(({ labels }) => labels)).map(({ alert }) => alert),
  );
  const unproven = RULES.filter(({ alert }) => !fired.has(alert)).map(({ alert }) => alert);
  await checks.run('every alert has a scenario in which it fires', () => {
    if (unproven.length > 0) throw new Error(unproven.join(', '));
  });
}

/** A panel shows a number: not nothing, and not NaN. */
async function checkPanels(
  prometheus: Prometheus,
  queries: readonly PanelQuery[],
  when: string,
  sendTraffic = (): Promise<unknown> => Promise.resolve(),
): Promise<void> {
  for (const { panel, expr } of queries) {
    await checks.run(`${when}, the panel "${panel}" shows numbers`, async () => {
      let values: readonly number[] = [];
      await eventually(
        () => `${expr} has values: it is [${values.join(', ')}]`,
        async () => {
          await sendTraffic();
          values = await prometheus.query(expr);
          return values.length > 0 && !values.some(Number.isNaN);
        },
      );
    });
  }
}

async function checkDashboard(cleanup: Cleanup, folder: string, service: WatchedService): Promise<void> {
  const prometheus = await Prometheus.start(cleanup, folder, service.metricsUrl);
  const scrapes = `count_over_time(platform_auth_database_up[5m])`;
  await eventually('Prometheus scrapes the service', async () => ((await prometheus.query(scrapes))[0] ?? 0) >= 5);
  await checkPanels(
    prometheus,
    PANEL_QUERIES.filter(({ needsTraffic }) => !needsTraffic),
    'without requests',
  );
  await checkPanels(
    prometheus,
    PANEL_QUERIES.filter(({ needsTraffic }) => needsTraffic),
    'with health checks',
    // A panel shows the traffic of the last seconds.
    () => fetch(`${service.url}/health`).then((response) => response.text()),
  );
  await checks.run('in a real Prometheus, all alerts are silent', async () => {
    let alerts: readonly string[] = [];
    // One may be pending for a moment on a busy machine, and that of the event loop for as long as it is busy.
    await eventually(
      () => `no alert is active: ${alerts.join(', ')}`,
      async () =>
        (alerts = await prometheus.alerts()).every((alert) => alert === 'PlatformAuthEventLoopDelayed (pending)'),
    );
  });
}

async function checkExposition({ metricsUrl }: WatchedService, name: string): Promise<void> {
  const { text } = await scrape(metricsUrl);
  await checks.run(`promtool accepts the metrics of ${name}`, () => {
    const { status, stdout, stderr } = spawnSync('promtool', ['check', 'metrics'], { input: text, encoding: 'utf8' });
    if (status !== 0 || `${stdout}${stderr}`.trim() !== '') throw new Error(`${stdout}${stderr}`);
  });
}

await checks.around(async (cleanup) => {
  const folder = makeTemporaryFolder(cleanup, 'alerts');
  await checkExposition(await startWatchedService(cleanup, 2), 'a fleet of two workers');
  const service = await startWatchedService(cleanup);
  await checkExposition(service, 'one process');
  // Not over HTTP, whose route would show no times later.
  await service.query(`INSERT INTO event_subscriptions (service, types, seal, number, created_at, updated_at)
    VALUES ('recipes', '{user.deleted}', 0, 0, now(), now())`);
  await checkDashboard(cleanup, folder, service);
  await checkRules(folder, await record(service));
});
