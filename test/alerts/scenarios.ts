import { toSeries, type Exposition } from './exposition.js';
import { change, constant, growing, OF_INSTANCE, steady, type Expectation } from './rules.js';

/** Scrapes of one service, one after the other. */
export interface History {
  readonly idle: Exposition;
  readonly afterTheft: Exposition;
  readonly afterFailure: Exposition;
  readonly inOutage: Exposition;
}

export interface Scenario {
  readonly name: string;
  readonly values: ReadonlyMap<string, string>;
  readonly expectations: readonly Expectation[];
}

const PREFIX = 'platform_auth_';
const VALIDATE_NODE = '/internal/validate-node';
type Labels = Readonly<Record<string, string>>;

/** What an alert does over the series of the idle service, of which some have values that cannot be brought about at will. */
interface Course {
  readonly does: string;
  readonly series: Labels | ((idle: Exposition) => Labels);
  /** Minutes at which it does not fire, and at which it does. */
  readonly silent?: number;
  readonly fires?: number;
  /** The labels of the alert besides those of its rule. */
  readonly labels?: Labels;
}

const toExpectations = (
  alert: string,
  { silent, fires, labels = {} }: Omit<Course, 'does' | 'series'>,
): Expectation[] => [
  ...(silent === undefined ? [] : [{ alert, minute: silent, labels: undefined }]),
  ...(fires === undefined ? [] : [{ alert, minute: fires, labels }]),
];

const labels = OF_INSTANCE;
const requests = toSeries('http_requests_total', { route: VALIDATE_NODE, method: 'POST', status: '401', door: 'node' });
const failures = 'http_failures_total{status="503"}';
const failedLogins = 'flow_refusals_total{event="user.login.failed",reason="wrong_password"}';
const reusedCodes = 'flow_refusals_total{event="node.enrolment.reused",reason="reused"}';
const refusedTargets = 'flow_refusals_total{event="token.exchange.refused",reason="target"}';
const endedTokens = 'flow_refusals_total{event="token.exchange.refused",reason="subject_token"}';
const revokedKeys = 'verdicts_total{door="node",reason="revoked"}';
const copiedPasskeys = 'flow_refusals_total{event="user.second_factor.failed",reason="counter_not_increased"}';
const sent = 'mails_total{kind="password_reset",outcome="sent"}';
const mailWaits = { mail_waiting_seconds: growing(1) };
const poolIsFull = { database_requests_waiting: steady(3), database_connections: steady(10) };
const poolGrows = { database_requests_waiting: steady(3), database_connections: steady(4) };

const COURSES: Readonly<Record<string, readonly Course[]>> = {
  PlatformAuthDown: [
    { does: 'fires when a scrape fails for a minute', series: { up: '1+0x40 0+0x200' }, silent: 10, fires: 12, labels },
    {
      does: 'fires when Prometheus knows no instance',
      series: { up: '1+0x40' },
      silent: 10,
      fires: 25,
      labels: { job: 'platform-auth' },
    },
  ],
  PlatformAuthWritesRefused: [
    {
      does: 'fires within two minutes of a full disk',
      series: { [failures]: '0+0x40 1+1x200' },
      silent: 10,
      fires: 12,
      labels: { ...labels, status: '503' },
    },
    {
      does: 'leaves a full hashing queue to its own alert',
      series: { [failures]: growing(1), hashing_queued: steady(3) },
      silent: 30,
    },
  ],
  PlatformAuthClockSkewed: [
    { does: 'fires when the clock is ahead', series: { clock_skew_seconds: steady(45) }, silent: 4, fires: 6, labels },
    { does: 'fires when the clock is behind', series: { clock_skew_seconds: steady(-45) }, fires: 6, labels },
    { does: 'ignores a difference of 5 seconds', series: { clock_skew_seconds: steady(5) }, silent: 30 },
  ],
  PlatformAuthClockWrong: [
    {
      does: 'fires when a replica is unready for its clock',
      series: { clock_skew_seconds: '45+0x40 90+0x200' },
      silent: 10,
      fires: 12,
      labels,
    },
  ],
  PlatformAuthLogsOnConsole: [
    {
      does: 'fires after ten minutes without the logging service',
      series: { log_delivering: steady(0) },
      silent: 9,
      fires: 11,
      labels,
    },
  ],
  PlatformAuthCannotLook: [
    { does: 'fires at 2 % of 503', series: { [requests]: growing(50), [failures]: growing(1) }, silent: 4, fires: 7 },
    { does: 'ignores 0.5 % of 503', series: { [requests]: growing(200), [failures]: growing(1) }, silent: 30 },
  ],
  PlatformAuthEnrolmentReused: [
    { does: 'fires at the first used code', series: { [reusedCodes]: '0+0x40 1+0x200' }, silent: 9, fires: 11 },
  ],
  PlatformAuthGuessing: [
    { does: 'fires at ten refused logins a second', series: { [failedLogins]: growing(10) }, silent: 4, fires: 9 },
    { does: 'ignores one refused login a second', series: { [failedLogins]: growing(1) }, silent: 30 },
  ],
  PlatformAuthKeysRefused: [
    {
      does: 'fires while a service presents a revoked key',
      series: { [revokedKeys]: growing(1) },
      silent: 14,
      fires: 17,
      labels: { door: 'node', reason: 'revoked' },
    },
  ],
  PlatformAuthExchangesRefused: [
    {
      does: 'fires while a service asks for a target that the map does not allow',
      series: { [refusedTargets]: growing(0.1) },
      silent: 14,
      fires: 17,
      labels: { reason: 'target' },
    },
    { does: 'ignores tokens of users that have ended', series: { [endedTokens]: growing(1) }, silent: 30 },
    { does: 'ignores a single mistake', series: { [refusedTargets]: '0+0x40 1+0x200' }, silent: 30 },
  ],
  PlatformAuthValidationsSlow: [
    {
      does: 'fires when one validation in ten takes 400 ms',
      series: (idle) => latencies(idle, 0.1, 0.4),
      silent: 9,
      fires: 12,
      labels: { route: VALIDATE_NODE },
    },
    { does: 'ignores validations of 80 ms', series: (idle) => latencies(idle, 0.1, 0.08), silent: 30 },
  ],
  PlatformAuthHashingQueueFilling: [
    {
      does: 'fires when 60 of 100 places are taken',
      series: { hashing_queued: steady(60) },
      silent: 1,
      fires: 3,
      labels,
    },
  ],
  PlatformAuthPoolExhausted: [
    { does: 'fires when statements wait and the pool is full', series: poolIsFull, silent: 1, fires: 3, labels },
    { does: 'ignores a pool that still grows', series: poolGrows, silent: 30 },
  ],
  PlatformAuthStatementsStalled: [
    {
      does: 'fires when PostgreSQL keeps a statement',
      series: { database_connections_stalled: steady(1) },
      fires: 2,
      labels,
    },
  ],
  PlatformAuthEventLoopDelayed: [
    { does: 'fires at 200 ms', series: { nodejs_eventloop_lag_p99_seconds: steady(0.2) }, silent: 4, fires: 6, labels },
  ],
  PlatformAuthPasskeyCopied: [
    {
      does: 'fires at the first passkey whose counter did not increase',
      series: { [copiedPasskeys]: '0+0x39 1+0x200' },
      silent: 9,
      fires: 11,
    },
  ],
  PlatformAuthSealingBehind: [
    { does: 'fires when rows wait for a seal', series: { audit_unsealed_seconds: growing(1) }, silent: 14, fires: 17 },
  ],
  PlatformAuthEventsUnread: [
    {
      does: 'fires when a service does not read for a day',
      series: { 'events_lag_seconds{service="recipes"}': steady(90_000) },
      silent: 14,
      fires: 16,
      labels: { service: 'recipes' },
    },
  ],
  PlatformAuthMailStuck: [
    { does: 'fires when no mail is sent', series: mailWaits, silent: 19, fires: 22 },
    { does: 'ignores one recipient that takes no mail', series: { ...mailWaits, [sent]: growing(1) }, silent: 40 },
  ],
  PlatformAuthKeysExpire: [
    { does: 'fires when a key expires soon', series: { keys_expiring: steady(1) }, silent: 59, fires: 62 },
  ],
  PlatformAuthMaintenanceOverdue: ['purge', 'audit_maintenance', 'key_maintenance'].map((job) => ({
    does: `fires when the last ${job} is hours ago`,
    series: { [`${job}_age_seconds`]: steady(8_000) },
    silent: 29,
    fires: 31,
  })),
};

/** What the service itself exposed before and after an event. It happens in minute 10. */
export function recordedScenarios({ idle, afterTheft, afterFailure, inOutage }: History): Scenario[] {
  return [
    {
      name: 'PlatformAuthRefreshTokenReused fires at the first theft',
      values: change(idle, afterTheft),
      expectations: [
        ...toExpectations('PlatformAuthRefreshTokenReused', { silent: 9, fires: 11 }),
        ...toExpectations('PlatformAuthRefreshTokenReused', { silent: 40 }),
      ],
    },
    {
      name: 'PlatformAuthFailing fires at the first 500',
      values: change(afterTheft, afterFailure),
      expectations: toExpectations('PlatformAuthFailing', { silent: 9, fires: 11 }),
    },
    {
      name: 'PlatformAuthDatabaseDown fires when the database is away for a minute',
      values: change(afterFailure, inOutage),
      expectations: [
        ...toExpectations('PlatformAuthDatabaseDown', { silent: 10, fires: 12, labels: OF_INSTANCE }),
        // The figures that need the database are missing: that is not an alert of its own.
        ...toExpectations('PlatformAuthClockSkewed', { silent: 30 }),
      ],
    },
  ];
}

export function computedScenarios(idle: Exposition): Scenario[] {
  return Object.entries(COURSES).flatMap(([alert, courses]) =>
    courses.map(({ does, series, ...course }) => {
      const own = typeof series === 'function' ? series(idle) : series;
      const changed = Object.entries(own).map(([key, value]) => [find(idle, key), value] as const);
      const values = new Map([...constant(idle), ...changed]);
      return { name: `${alert} ${does}`, values, expectations: toExpectations(alert, course) };
    }),
  );
}

/** The histogram of validate-node when a part of the calls takes so long, and the others one millisecond. */
function latencies(idle: Exposition, slowPart: number, seconds: number): Readonly<Record<string, string>> {
  const perSecond = 10;
  const buckets = [...idle].filter(
    ([, { name, labels }]) => name.endsWith('duration_seconds_bucket') && labels.route === VALIDATE_NODE,
  );
  return Object.fromEntries(
    buckets.map(([series, { labels }]) => {
      const isSlowIncluded = labels.le === '+Inf' || Number(labels.le) >= seconds;
      return [series, growing(isSlowIncluded ? perSecond : perSecond * (1 - slowPart))];
    }),
  );
}

/** @throws when the service does not expose the series */
function find(idle: Exposition, key: string): string {
  if (key === 'up') return key;
  const [, name = '', pairs] = /^(?:platform_auth_)?(\w+)(?:\{(.*)\})?$/.exec(key) ?? [];
  const series = `${PREFIX}${name}{${pairs ?? ''}}`;
  if (!idle.has(series)) throw new Error(`The service does not expose ${series}`);
  return series;
}
