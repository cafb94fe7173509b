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
const fires = (alert: string, minute: number, labels: Readonly<Record<string, string>> = {}): Expectation => ({
  alert,
  minute,
  labels,
});
const isSilent = (alert: string, minute: number): Expectation => ({ alert, minute, labels: undefined });

/** What the service itself exposed before and after an event. It happens in minute 10. */
export function recordedScenarios({ idle, afterTheft, afterFailure, inOutage }: History): Scenario[] {
  return [
    {
      name: 'PlatformAuthRefreshTokenReused fires at the first theft',
      values: change(idle, afterTheft),
      expectations: [
        isSilent('PlatformAuthRefreshTokenReused', 9),
        fires('PlatformAuthRefreshTokenReused', 11),
        isSilent('PlatformAuthRefreshTokenReused', 40),
      ],
    },
    {
      name: 'PlatformAuthFailing fires at the first 500',
      values: change(afterTheft, afterFailure),
      expectations: [isSilent('PlatformAuthFailing', 9), fires('PlatformAuthFailing', 11)],
    },
    {
      name: 'PlatformAuthDatabaseDown fires when the database is away for a minute',
      values: change(afterFailure, inOutage),
      expectations: [
        isSilent('PlatformAuthDatabaseDown', 10),
        fires('PlatformAuthDatabaseDown', 12, OF_INSTANCE),
        // The figures that need the database are missing: that is not an alert of its own.
        isSilent('PlatformAuthClockSkewed', 30),
      ],
    },
  ];
}

/** Series of the idle service, some of them with values that cannot be brought about at will. */
export function computedScenarios(idle: Exposition): Scenario[] {
  const scenario = (
    name: string,
    changed: Readonly<Record<string, string>>,
    ...expectations: Expectation[]
  ): Scenario => ({
    name,
    values: new Map([
      ...constant(idle),
      ...Object.entries(changed).map(([key, value]) => [find(idle, key), value] as const),
    ]),
    expectations,
  });
  return [
    ...instanceScenarios(scenario),
    ...requestScenarios(scenario),
    ...refusalScenarios(scenario),
    ...latencyScenarios(scenario, idle),
    ...saturationScenarios(scenario),
    ...operationScenarios(scenario),
  ];
}

type MakeScenario = (
  name: string,
  changed: Readonly<Record<string, string>>,
  ...expectations: Expectation[]
) => Scenario;

function instanceScenarios(scenario: MakeScenario): Scenario[] {
  return [
    scenario(
      'PlatformAuthDown fires when a scrape fails for a minute',
      { up: '1+0x40 0+0x200' },
      isSilent('PlatformAuthDown', 10),
      fires('PlatformAuthDown', 12, OF_INSTANCE),
    ),
    scenario(
      'PlatformAuthDown fires when Prometheus knows no instance',
      { up: '1+0x40' },
      isSilent('PlatformAuthDown', 10),
      fires('PlatformAuthDown', 25, { job: 'platform-auth' }),
    ),
    scenario(
      'PlatformAuthClockSkewed fires when the clock is ahead',
      { clock_skew_seconds: steady(45) },
      isSilent('PlatformAuthClockSkewed', 4),
      fires('PlatformAuthClockSkewed', 6, OF_INSTANCE),
    ),
    scenario(
      'PlatformAuthClockSkewed fires when the clock is behind',
      { clock_skew_seconds: steady(-45) },
      fires('PlatformAuthClockSkewed', 6, OF_INSTANCE),
    ),
    scenario(
      'PlatformAuthClockWrong fires when a replica is unready for its clock',
      { clock_skew_seconds: '45+0x40 90+0x200' },
      isSilent('PlatformAuthClockWrong', 10),
      fires('PlatformAuthClockWrong', 12, OF_INSTANCE),
    ),
    scenario(
      'PlatformAuthClockSkewed ignores a difference of 5 seconds',
      { clock_skew_seconds: steady(5) },
      isSilent('PlatformAuthClockSkewed', 30),
    ),
    scenario(
      'PlatformAuthLogsOnConsole fires after ten minutes without the logging service',
      { log_delivering: steady(0) },
      isSilent('PlatformAuthLogsOnConsole', 9),
      fires('PlatformAuthLogsOnConsole', 11, OF_INSTANCE),
    ),
  ];
}

function requestScenarios(scenario: MakeScenario): Scenario[] {
  const requests = toSeries('http_requests_total', {
    route: VALIDATE_NODE,
    method: 'POST',
    status: '401',
    door: 'node',
  });
  const failures = 'http_failures_total{status="503"}';
  return [
    scenario(
      'PlatformAuthCannotLook fires at 2 % of 503',
      { [requests]: growing(50), [failures]: growing(1) },
      isSilent('PlatformAuthCannotLook', 4),
      fires('PlatformAuthCannotLook', 7),
    ),
    scenario(
      'PlatformAuthCannotLook ignores 0.5 % of 503',
      { [requests]: growing(200), [failures]: growing(1) },
      isSilent('PlatformAuthCannotLook', 30),
    ),
  ];
}

function refusalScenarios(scenario: MakeScenario): Scenario[] {
  const failedLogins = 'flow_refusals_total{event="user.login.failed",reason="wrong_password"}';
  const reusedCodes = 'flow_refusals_total{event="node.enrolment.reused",reason="reused"}';
  const refusedKeys = 'verdicts_total{door="node",reason="revoked"}';
  return [
    scenario(
      'PlatformAuthEnrolmentReused fires at the first used code',
      { [reusedCodes]: '0+0x40 1+0x200' },
      isSilent('PlatformAuthEnrolmentReused', 9),
      fires('PlatformAuthEnrolmentReused', 11),
    ),
    scenario(
      'PlatformAuthGuessing fires at ten refused logins a second',
      { [failedLogins]: growing(10) },
      isSilent('PlatformAuthGuessing', 4),
      fires('PlatformAuthGuessing', 9),
    ),
    scenario(
      'PlatformAuthGuessing ignores one refused login a second',
      { [failedLogins]: growing(1) },
      isSilent('PlatformAuthGuessing', 30),
    ),
    scenario(
      'PlatformAuthKeysRefused fires while a service presents a revoked key',
      { [refusedKeys]: growing(1) },
      isSilent('PlatformAuthKeysRefused', 14),
      fires('PlatformAuthKeysRefused', 17, { door: 'node', reason: 'revoked' }),
    ),
  ];
}

function latencyScenarios(scenario: MakeScenario, idle: Exposition): Scenario[] {
  return [
    scenario(
      'PlatformAuthValidationsSlow fires when one validation in ten takes 400 ms',
      latencies(idle, 0.1, 0.4),
      isSilent('PlatformAuthValidationsSlow', 9),
      fires('PlatformAuthValidationsSlow', 12, { route: VALIDATE_NODE }),
    ),
    scenario(
      'PlatformAuthValidationsSlow ignores validations of 80 ms',
      latencies(idle, 0.1, 0.08),
      isSilent('PlatformAuthValidationsSlow', 30),
    ),
  ];
}

function saturationScenarios(scenario: MakeScenario): Scenario[] {
  const waiting = { database_requests_waiting: steady(3) };
  return [
    scenario(
      'PlatformAuthHashingQueueFilling fires when 60 of 100 places are taken',
      { hashing_queued: steady(60) },
      isSilent('PlatformAuthHashingQueueFilling', 1),
      fires('PlatformAuthHashingQueueFilling', 3, OF_INSTANCE),
    ),
    scenario(
      'PlatformAuthPoolExhausted fires when statements wait and the pool is full',
      { ...waiting, database_connections: steady(10) },
      isSilent('PlatformAuthPoolExhausted', 1),
      fires('PlatformAuthPoolExhausted', 3, OF_INSTANCE),
    ),
    scenario(
      'PlatformAuthPoolExhausted ignores a pool that still grows',
      { ...waiting, database_connections: steady(4) },
      isSilent('PlatformAuthPoolExhausted', 30),
    ),
    scenario(
      'PlatformAuthStatementsStalled fires when PostgreSQL keeps a statement',
      { database_connections_stalled: steady(1) },
      fires('PlatformAuthStatementsStalled', 2, OF_INSTANCE),
    ),
    scenario(
      'PlatformAuthEventLoopDelayed fires at 200 ms',
      { nodejs_eventloop_lag_p99_seconds: steady(0.2) },
      isSilent('PlatformAuthEventLoopDelayed', 4),
      fires('PlatformAuthEventLoopDelayed', 6, OF_INSTANCE),
    ),
  ];
}

function operationScenarios(scenario: MakeScenario): Scenario[] {
  const copiedPasskeys = 'flow_refusals_total{event="user.second_factor.failed",reason="counter_not_increased"}';
  const sent = 'mails_total{kind="password_reset",outcome="sent"}';
  return [
    scenario(
      'PlatformAuthPasskeyCopied fires at the first passkey whose counter did not increase',
      { [copiedPasskeys]: '0+0x39 1+0x200' },
      isSilent('PlatformAuthPasskeyCopied', 9),
      fires('PlatformAuthPasskeyCopied', 11),
    ),
    scenario(
      'PlatformAuthSealingBehind fires when rows wait for a seal',
      { audit_unsealed_seconds: growing(1) },
      isSilent('PlatformAuthSealingBehind', 14),
      fires('PlatformAuthSealingBehind', 17),
    ),
    scenario(
      'PlatformAuthMailStuck fires when no mail is sent',
      { mail_waiting_seconds: growing(1) },
      isSilent('PlatformAuthMailStuck', 19),
      fires('PlatformAuthMailStuck', 22),
    ),
    scenario(
      'PlatformAuthMailStuck ignores one recipient that takes no mail',
      { mail_waiting_seconds: growing(1), [sent]: growing(1) },
      isSilent('PlatformAuthMailStuck', 40),
    ),
    ...['purge', 'audit_maintenance', 'key_maintenance'].map((job) =>
      scenario(
        `PlatformAuthMaintenanceOverdue fires when the last ${job} is hours ago`,
        { [`${job}_age_seconds`]: steady(8_000) },
        isSilent('PlatformAuthMaintenanceOverdue', 29),
        fires('PlatformAuthMaintenanceOverdue', 31),
      ),
    ),
  ];
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
