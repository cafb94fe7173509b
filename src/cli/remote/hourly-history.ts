/** `platform-auth status --history`: what happened in each hour of the last day, beside the day before. */
import * as z from 'zod';
import {
  COUNTER_NAMES,
  DAY_HOURS,
  sumDays,
  type CounterName,
  type Counts,
} from '../../foundation/common/hourly-counters.js';
import { formatTable } from '../tables.js';
import type { AdminClient } from './admin-client.js';

const counts = z.object({ items: z.array(z.object({ hour: z.string(), ...createShape(z.number()) })) });
type Hours = z.infer<typeof counts>['items'];

function createShape<Value>(value: Value): Record<CounterName, Value> {
  return Object.fromEntries(COUNTER_NAMES.map((name) => [name, value])) as Record<CounterName, Value>;
}

export async function readHours(client: AdminClient): Promise<Hours> {
  return client.requireShape(counts, await client.get(`/hourly-counts?hours=${2 * DAY_HOURS}`)).items;
}

/** A cell is `3 (5)`: 3 in this hour, and 5 in the same hour of the day before. */
export function formatHours(hours: Hours): string {
  const { today, yesterday } = sumDays(hours);
  const toRow = (hour: string, now: Counts, before: Counts | undefined) => ({
    hour,
    ...Object.fromEntries(COUNTER_NAMES.map((name) => [toTitle(name), `${now[name]} (${before?.[name] ?? 0})`])),
  });
  const lastDay = hours
    .slice(-DAY_HOURS)
    .map((each, index) => toRow(each.hour.slice(5, 16).replace('T', ' '), each, hours.at(index - 2 * DAY_HOURS)));
  const columns = ['hour', ...COUNTER_NAMES.map(toTitle)];
  const table = formatTable(columns, [...lastDay, toRow('today', today, yesterday)], {
    drop: ['new sessions', 'validations'],
  });
  return `In brackets: the same hour of the day before, and yesterday. All times are UTC.\n${table}`;
}

function toTitle(name: CounterName): string {
  return name.replaceAll('_', ' ');
}
