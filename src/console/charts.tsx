/** Small charts of hourly counts, drawn on the server, each with its figures as a table for screen readers and copying. */
import type { VNode } from 'preact';
import type { HourCountsResponse } from '../api/admin/hourly-counts.admin.controller.js';
import { COUNTERS, COUNTER_NAMES, DAY_HOURS, sumDays, type CounterName } from '../foundation/common/hourly-counters.js';
import { toLabel } from './properties.js';
import { Table } from './tables.js';

const [BAR_WIDTH, GAP, HEIGHT] = [10, 2, 48];
const STEP = BAR_WIDTH + GAP;
const NUMBER = new Intl.NumberFormat('en');

interface ChartProps {
  /** 48 hours, the present one last. */
  readonly hours: readonly HourCountsResponse[];
  readonly name: CounterName;
}

/** One chart for each counter: the last 24 hours as bars, and the same hours of the day before as lines. */
export function Charts({ hours }: Pick<ChartProps, 'hours'>): VNode {
  return (
    <div class="charts">
      {COUNTER_NAMES.map((name) => (
        <Chart hours={hours} name={name} />
      ))}
    </div>
  );
}

function Chart({ hours, name }: ChartProps): VNode {
  const [before, now] = [hours.slice(0, DAY_HOURS), hours.slice(-DAY_HOURS)];
  const most = Math.max(1, ...hours.map((hour) => hour[name]));
  const title = toLabel(name);
  const { today, yesterday } = sumDays(hours);
  const totals = `${NUMBER.format(today[name])} today, ${NUMBER.format(yesterday[name])} yesterday`;
  const rows = now
    .map((hour, index) => [
      <time dateTime={hour.hour}>{hour.hour.slice(0, 16).replace('T', ' ')}</time>,
      hour[name],
      before[index]?.[name] ?? 0,
    ])
    .reverse();
  return (
    <figure class="chart">
      <figcaption>
        <b>{title}</b> <span title={COUNTERS[name]}>{totals}</span>
      </figcaption>
      <svg viewBox={`0 0 ${DAY_HOURS * STEP} ${HEIGHT}`} role="img" aria-label={`${title} by hour: ${totals}`}>
        <path class="now" d={drawBars(now.map((hour) => hour[name] / most))} />
        <path class="before" d={drawMarks(before.map((hour) => hour[name] / most))} />
      </svg>
      <details>
        <summary>
          Figures<span class="visually-hidden"> of {title.toLowerCase()}</span>
        </summary>
        <Table caption={`${title} by hour`} head={['Hour (UTC)', 'Last day', 'The day before']} rows={rows} />
      </details>
    </figure>
  );
}

/** One of a million is drawn too. */
const toHeight = (share: number): number => (share === 0 ? 0 : Math.max(2, Math.round(share * HEIGHT)));

function drawBars(shares: readonly number[]): string {
  const bars = shares
    .map((share, index) => [index * STEP, toHeight(share)] as const)
    .filter(([, height]) => height > 0);
  return bars.map(([x, height]) => `M${x} ${HEIGHT}v-${height}h${BAR_WIDTH}v${height}z`).join('');
}

function drawMarks(shares: readonly number[]): string {
  const marks = shares.map((share, index) => [index * STEP, Math.max(1, HEIGHT - toHeight(share))] as const);
  return marks.map(([x, y]) => (y < HEIGHT ? `M${x - GAP / 2} ${y}h${STEP}` : '')).join('');
}
