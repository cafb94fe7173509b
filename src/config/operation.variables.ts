import { wholeNumber } from './variable-kinds.js';
import type { Section } from './variable.js';

/** Long enough for a load balancer to notice that the replica is unready. */
export const PRODUCTION_SHUTDOWN_DELAY_MS = 2_000;

export const metricsSection = {
  title: 'Metrics and traces',
  variables: {
    METRICS_PORT: {
      type: wholeNumber(0, 65_535).optional(),
      example: 9464,
      meaning:
        '`GET /metrics` for Prometheus on this port of `HOST`; unset: off. See [observability](observability.md)',
      explanation:
        'Port of HOST on which GET /metrics answers Prometheus, {bounds}; 0 takes any free port. Unset: off. It has no ' +
        'authentication: do not publish it. docs/observability.md lists what it shows.',
    },
  },
  note:
    "OpenTelemetry traces are off unless the process's own environment (not this file) asks for them by the standard " +
    'variables, such as OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318. See docs/observability.md.',
} satisfies Section;

export const healthSection = {
  title: 'Health and stop',
  variables: {
    HEALTH_TIMEOUT_MS: {
      type: wholeNumber(50, 60_000).default(1_000),
      meaning: 'timeout of each check of `/health`',
      explanation: 'Timeout of each check of /health, {bounds} milliseconds.',
    },
    SHUTDOWN_DELAY_MS: {
      type: wholeNumber(0, 120_000).optional(),
      defaultText: `0; production ${PRODUCTION_SHUTDOWN_DELAY_MS}`,
      example: 0,
      meaning: 'go on serving after SIGTERM while `/health` says 503',
      explanation:
        'How long to go on serving after SIGTERM while /health says 503, {bounds} milliseconds. Behind a load balancer: ' +
        `a little more than it needs to notice. Default: 0, and ${PRODUCTION_SHUTDOWN_DELAY_MS} in production.`,
    },
    SHUTDOWN_DEADLINE_MS: {
      type: wholeNumber(100, 600_000).default(15_000),
      meaning: 'from SIGTERM to a forced exit; keep it above the delay',
      explanation:
        'From SIGTERM to a forced exit with code 1, {bounds} milliseconds. Keep it well above SHUTDOWN_DELAY_MS.',
    },
  },
} satisfies Section;

export const maintenanceSection = {
  title: 'Purge and audit log',
  variables: {
    PURGE_INTERVAL_MINUTES: {
      type: wholeNumber(1, 10_080).default(15),
      meaning:
        'interval of the maintenance jobs: purge, months of the audit log, signing keys, secrets of an earlier `SECRET_KEY`',
      explanation:
        'Interval of the maintenance jobs (purge, months of the audit log, signing keys, secrets of an earlier SECRET_KEY), {bounds} minutes.',
    },
    SESSION_KEEP_DAYS: {
      type: wholeNumber(1, 3_650).default(30),
      meaning: 'how long ended and expired sessions are kept',
      explanation: 'How long ended and expired sessions are kept, {bounds} days.',
    },
    CREDENTIAL_KEEP_DAYS: {
      type: wholeNumber(1, 36_500).default(365),
      meaning: 'how long revoked and expired keys are kept',
      explanation: 'How long revoked and expired app credentials and nodes are kept, {bounds} days.',
    },
    AUDIT_RETENTION_DAYS: {
      type: wholeNumber(1, 36_500).default(365),
      meaning: 'keep the audit log, by whole months; see [audit.md](audit.md)',
      explanation: 'How long the audit log is kept, {bounds} days. Whole months are deleted.',
    },
    AUDIT_SEAL_INTERVAL_SECONDS: {
      type: wholeNumber(1, 3_600).default(5),
      meaning: 'how often new rows of the audit log are sealed',
      explanation: 'How often new rows of the audit log are sealed, {bounds} seconds.',
    },
  },
} satisfies Section;
