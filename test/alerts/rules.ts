import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { parse, stringify } from 'yaml';
import { z } from 'zod';
import { toSeries, type Exposition } from './exposition.js';

export const RULES_FILE = resolve('deploy/prometheus/alerts.yml');
const SCRAPE_INTERVAL_SECONDS = 15;
/** What Prometheus adds to every series. */
const TARGET = { instance: 'auth:9464', job: 'platform-auth' };
const SAMPLES_BEFORE = 40;
const SAMPLES_AFTER = 200;

const rulesSchema = z.object({
  groups: z.array(
    z.object({
      rules: z.array(
        z.object({
          alert: z.string(),
          labels: z.record(z.string(), z.string()),
          annotations: z.record(z.string(), z.string()),
        }),
      ),
    }),
  ),
});

export const RULES = rulesSchema.parse(parse(readFileSync(RULES_FILE, 'utf8'))).groups.flatMap(({ rules }) => rules);

/** The values of a series, in the notation of promtool. */
type Values = ReadonlyMap<string, string>;

/** Every series keeps its value. */
export function constant(samples: Exposition): Map<string, string> {
  return new Map([...samples].map(([series, { value }]) => [series, `${value}+0x${SAMPLES_BEFORE + SAMPLES_AFTER}`]));
}

/** Every series has the value of the first scrape for ten minutes, and then that of the second. */
export function change(before: Exposition, after: Exposition): Map<string, string> {
  return new Map(
    [...after].map(([series, { value }]) => {
      const start = before.get(series)?.value;
      const head = start === undefined ? `_x${SAMPLES_BEFORE}` : `${start}+0x${SAMPLES_BEFORE - 1}`;
      return [series, `${head} ${value}+0x${SAMPLES_AFTER}`];
    }),
  );
}

/** A series that grows by so much a second, or has a value, from the beginning. */
export const growing = (perSecond: number): string =>
  `0+${perSecond * SCRAPE_INTERVAL_SECONDS}x${SAMPLES_BEFORE + SAMPLES_AFTER}`;
export const steady = (value: number): string => `${value}+0x${SAMPLES_BEFORE + SAMPLES_AFTER}`;

export interface Expectation {
  readonly alert: string;
  /** Minutes after the beginning. */
  readonly minute: number;
  /** The labels of the alert besides those of its rule; undefined: it does not fire. */
  readonly labels: Readonly<Record<string, string>> | undefined;
}

/** Labels of an alert on one instance. */
export const OF_INSTANCE = TARGET;

/** Has promtool evaluate the rules over these series. @throws with its output when an expectation is not met */
export async function expectAlerts(
  folder: string,
  values: Values,
  expectations: readonly Expectation[],
): Promise<void> {
  const up = values.has('up') ? [] : [['up', steady(1)] as const];
  const input = [...values, ...up].flatMap(([series, value]) =>
    value === '' ? [] : [{ series: withTarget(series), values: value }],
  );
  const test = {
    rule_files: [RULES_FILE],
    evaluation_interval: `${SCRAPE_INTERVAL_SECONDS}s`,
    tests: [
      { interval: `${SCRAPE_INTERVAL_SECONDS}s`, input_series: input, alert_rule_test: expectations.map(toRuleTest) },
    ],
  };
  const file = join(folder, 'test.yml');
  writeFileSync(file, stringify(test, { aliasDuplicateObjects: false }));
  await promtool('test', 'rules', file);
}

/** @throws with what promtool printed, unless it exits with 0 */
export async function promtool(...words: string[]): Promise<void> {
  try {
    await promisify(execFile)('promtool', words);
  } catch (error) {
    const { code, stdout = '', stderr = '' } = error as { code?: unknown; stdout?: string; stderr?: string };
    if (code === 'ENOENT')
      throw new Error('promtool is missing: install Prometheus (Debian: prometheus)', { cause: error });
    throw new Error(`${stdout}${stderr}`, { cause: error });
  }
}

function toRuleTest({ alert, minute, labels }: Expectation) {
  const rule = RULES.find((candidate) => candidate.alert === alert);
  if (!rule) throw new Error(`${alert} is not in ${RULES_FILE}`);
  const render = (text: string): string =>
    text.replace(/\{\{ \$labels\.(\w+) \}\}/g, (_match, label: string) => labels?.[label] ?? '');
  const annotations = Object.fromEntries(Object.entries(rule.annotations).map(([name, text]) => [name, render(text)]));
  return {
    eval_time: `${minute}m`,
    alertname: alert,
    exp_alerts: labels ? [{ exp_labels: { ...rule.labels, ...labels }, exp_annotations: annotations }] : [],
  };
}

function withTarget(series: string): string {
  const [, name = '', pairs = ''] = /^(\w+)(?:\{(.*)\})?$/.exec(series) ?? [];
  const labels = Object.fromEntries(
    [...pairs.matchAll(/(\w+)="([^"]*)"/g)].map(([, label = '', value = '']) => [label, value]),
  );
  return toSeries(name, { ...labels, ...TARGET });
}
