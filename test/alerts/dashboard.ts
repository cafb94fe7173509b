import { readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { z } from 'zod';
import { claimPort } from '../../tools/claim-port.js';
import { readJson } from '../../tools/api-client.js';
import type { Cleanup } from '../../tools/cleanup.js';
import { eventually } from '../../tools/eventually.js';
import { Program } from '../../tools/program.js';
import { statusOf } from '../../tools/server-process.js';
import { RULES_FILE } from './rules.js';

const DASHBOARD = resolve('deploy/grafana/platform-auth.json');
const RATE_INTERVAL = '10s';

const dashboardSchema = z.object({
  panels: z.array(z.object({ title: z.string(), targets: z.array(z.object({ expr: z.string() })).optional() })),
});
const vectorSchema = z.object({
  data: z.object({ result: z.array(z.object({ value: z.tuple([z.number(), z.string()]) })) }),
});
const alertsSchema = z.object({
  data: z.object({ alerts: z.array(z.object({ state: z.string(), labels: z.record(z.string(), z.string()) })) }),
});

/** One query of a panel, as Grafana would send it for all replicas. */
export interface PanelQuery {
  readonly panel: string;
  readonly expr: string;
  /** A panel by route, status or door is empty until the first request. */
  readonly needsTraffic: boolean;
}

export const PANEL_QUERIES: readonly PanelQuery[] = dashboardSchema
  .parse(JSON.parse(readFileSync(DASHBOARD, 'utf8')))
  .panels.flatMap(({ title, targets = [] }) =>
    targets.map(({ expr }) => ({
      panel: title,
      expr: expr.replaceAll('$instance', '.*').replaceAll('$__rate_interval', RATE_INTERVAL),
      needsTraffic: /by \((le, )?(route|status|door)\)/.test(expr) && !expr.includes('reason'),
    })),
  );

/** A real Prometheus that scrapes the service every second, with the alerts loaded. */
export class Prometheus {
  private constructor(private readonly url: string) {}

  static async start(cleanup: Cleanup, folder: string, metricsUrl: string): Promise<Prometheus> {
    const config = join(folder, 'prometheus.yml');
    const target = { job_name: 'platform-auth', static_configs: [{ targets: [new URL(metricsUrl).host] }] };
    const global = { scrape_interval: '1s', evaluation_interval: '1s' };
    // JSON is YAML too.
    writeFileSync(config, JSON.stringify({ global, rule_files: [RULES_FILE], scrape_configs: [target] }));
    const url = `http://127.0.0.1:${await claimPort()}`;
    const flags = [`--config.file=${config}`, `--storage.tsdb.path=${join(folder, 'data')}`];
    const program = Program.start(cleanup, 'prometheus', [...flags, `--web.listen-address=${new URL(url).host}`]);
    await eventually(
      () => `Prometheus is ready: ${program.output}`,
      async () => program.hasExited || (await statusOf(`${url}/-/ready`)) === 200,
    );
    if (program.hasExited) throw new Error(`Prometheus has exited: ${program.output}`);
    return new Prometheus(url);
  }

  /** @returns the values of the present moment */
  async query(expr: string): Promise<number[]> {
    const answer = await readJson(`${this.url}/api/v1/query?query=${encodeURIComponent(expr)}`, vectorSchema);
    return answer.data.result.map(({ value: [, value] }) => Number(value));
  }

  /** @returns the names of the alerts that fire or are about to */
  async alerts(): Promise<string[]> {
    const { data } = await readJson(`${this.url}/api/v1/alerts`, alertsSchema);
    return data.alerts.map(({ state, labels }) => `${labels.alertname ?? ''} (${state})`);
  }
}
