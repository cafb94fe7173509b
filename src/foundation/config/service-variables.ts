// Variables of the process and of its keys: secrets, ports, database, logs, metrics, stop, retention, revocation.

import { postgresUrl } from './urls.js';
import * as kinds from './variable-kinds.js';
import type { Section } from './variable-kinds.js';

export const LOOPBACK = '127.0.0.1';
export const EVERY_ADDRESS = '0.0.0.0';
/** A load balancer notices within this time that the replica is unready. */
export const PRODUCTION_SHUTDOWN_DELAY_MS = 2_000;

const DEFAULT_LEASE_MS = 500;

const GENERATE = 'Generate one with: `openssl rand -base64 48`.';
const FIRST_START = 'In development the first start generates one into `.env`.';

export const serverSections = [
  {
    title: 'Secrets',
    introduction:
      'A secret may come from a file: set the variable with the suffix `_FILE` to its path, and not the variable ' +
      'itself. [configuration.md](configuration.md#secrets-in-files) has the rules.',
    variables: {
      SECRET_KEY: {
        type: kinds.secret,
        mayBeFile: true,
        text:
          'Signs access tokens (HS256). Services that verify HS256 tokens on their own need the same value. Required ' +
          `in production. ${FIRST_START} ${GENERATE}`,
      },
      SECRET_KEY_PREVIOUS: {
        type: kinds.secret.optional(),
        mayBeFile: true,
        text:
          'The former SECRET_KEY, during [its rotation](operations/keys.md#rotate-secret_key): tokens are still ' +
          'verified with it.',
      },
      MASTER_KEY: {
        type: kinds.secret.optional(),
        mayBeFile: true,
        defaultText: 'the `SECRET_KEY`, with a warning at the start in production',
        text:
          'No other service gets it. The keys of login challenges and refresh tokens, and of what is encrypted in the ' +
          'database, are [derived from it](operations/keys.md#keys-and-algorithms). Never change it without ' +
          `MASTER_KEY_PREVIOUS. ${FIRST_START} ${GENERATE}`,
      },
      MASTER_KEY_PREVIOUS: {
        type: kinds.secret.optional(),
        mayBeFile: true,
        defaultText: '`SECRET_KEY_PREVIOUS`, without a MASTER_KEY',
        text:
          'The former MASTER_KEY, during [its rotation](operations/keys.md#rotate-master_key): TOTP secrets and ' +
          'signing keys are still decrypted with it.',
      },
      ADMIN_API_KEY: {
        type: kinds.headerSecret.optional(),
        mayBeFile: true,
        text:
          'The root key of the admin door, sent as `X-Admin-Key`. Unset: only the keys of ' +
          `[operators](operations/operators.md) open it. ${FIRST_START} ${GENERATE}`,
      },
      AUDIT_SEAL_KEY: {
        type: kinds.secret.optional(),
        mayBeFile: true,
        defaultText: 'derived from `MASTER_KEY`',
        text:
          'Key of the seals of the [audit log](audit.md), so that an auditor can verify them without MASTER_KEY. ' +
          `Seals made with another key no longer verify. ${FIRST_START} ${GENERATE}`,
      },
    },
  },
  {
    title: 'Server',
    variables: {
      NODE_ENV: {
        type: kinds.oneOf('development', 'production', 'test').default('development'),
        text: 'Production reads no `.env`, and never makes a secret or a database of its own.',
      },
      HOST: {
        type: kinds.word.optional(),
        defaultText: `\`${LOOPBACK}\`; production \`${EVERY_ADDRESS}\``,
        example: LOOPBACK,
        text: 'Address to listen on.',
      },
      PORT: {
        type: kinds.wholeNumber(0, 65_535).default(7701),
        text: 'Port to listen on. 0 takes any free port, here and for the other ports.',
      },
      INTERNAL_PORT: {
        type: kinds.wholeNumber(0, 65_535).optional(),
        example: 7700,
        text:
          'A second port of HOST for services and operators, which serves all routes. PORT then answers 404 on ' +
          '`/internal/*` and on the admin routes, so that only PORT needs to be published. Unset: PORT serves all ' +
          'routes.',
      },
      SERVICE_NAME: {
        type: kinds.serviceName.default('auth'),
        text:
          'What other services call this one. Only app keys with this target open its own routes; `platform-auth ' +
          'init` makes them for the name auth.',
      },
      NODE_TARGETS: {
        type: kinds.targets.optional(),
        example: 'command-orchestration,speech-to-text',
        text:
          'Services at which a new node is accepted, if its registration names no `targets`. Unset: all. ' +
          '`platform-auth init` writes it from `nodes` of the [map](platform.md).',
      },
      APP_KEY_DAYS: {
        type: kinds.wholeNumber(1, 3_650).optional(),
        defaultText: 'none',
        example: '90',
        text:
          'Life in days of the keys of new app credentials that are issued without an `expires_at`. Each ' +
          '[rotation](operations/keys.md#keys-with-a-life) starts it again. Unset: they do not expire.',
      },
      HOUSEHOLD_NODE_TARGETS: {
        type: kinds.targets.optional(),
        example: 'command-orchestration,speech-to-text',
        text:
          'Services at which a node is accepted that an admin of a [household](households.md) enrols, and no others. ' +
          'Unset: only operators enrol nodes. Registration may be open, so name services that expect nodes of ' +
          'strangers.',
      },
      WORKERS: {
        type: kinds.workers.default(1),
        text:
          'Processes that share the port; auto starts one per core. Settings "of one process" apply to each of them. ' +
          '[workers.md](workers.md) says when it is worth it.',
      },
      TRUST_PROXY: {
        type: kinds.trustProxy,
        text:
          'Which proxies may name the client in `X-Forwarded-For`, for logs and throttles: false (none), true ' +
          '(the nearest one), the number of proxies, or their addresses and ranges separated by commas ' +
          '("loopback" is a range).',
      },
      CORS_ORIGINS: {
        type: kinds.origins.optional(),
        example: 'https://admin.example.org',
        text:
          'Origins whose pages may call `/api/v0` from a browser, each exactly as a browser sends it. "*" is ' +
          'refused; see [decision 18](decisions/0018-http-hygiene.md).',
      },
    },
  },
  {
    title: 'Database',
    variables: {
      DATABASE_URL: {
        type: postgresUrl,
        mayBeFile: true,
        text:
          'PostgreSQL 14 or newer: postgresql://user:password@host:5432/database. Required in production; ' +
          'elsewhere an [embedded server](operations/embedded-database.md) is started without it. Sockets, TLS ' +
          'and other parameters: [high-availability.md](operations/high-availability.md#database_url).',
      },
      DATABASE_POOL_SIZE: {
        type: kinds.wholeNumber(1, 1_000).default(10),
        text:
          'Connections of the pool of one process, which opens more beside it: plan ' +
          '[max_connections](operations/production.md#replicas) for them.',
      },
    },
  },
] as const satisfies readonly Section[];

export const operationSections = [
  {
    title: 'App and node keys',
    variables: {
      REVOCATION_LEASE_MS: {
        type: kinds.leaseMs.default(DEFAULT_LEASE_MS),
        text:
          'How long a replica may answer validations from its key cache after it last asked the database what was ' +
          'revoked. A call that revokes [waits](revocation-lease.md) a little longer before it answers. 0: no ' +
          'cache. It may be changed in a rolling restart.',
      },
      OUTAGE_GRACE_SECONDS: {
        type: kinds.wholeNumber(0, 86_400).default(0),
        text:
          'How much longer a replica accepts cached keys while the database is unavailable. A replica that is cut ' +
          'off may accept a revoked key for that long. ' +
          '[Which readiness](operations/health.md#which-readiness-to-ask) a load balancer must ask for it.',
      },
      VALIDATE_NODE_REQUIRES_APP: {
        type: kinds.flag,
        text:
          '`/internal/validate-node` demands the app headers of the calling service too. false: they are checked ' +
          'when sent.',
      },
    },
  },
  {
    title: 'Logs',
    variables: {
      LOG_LEVEL: {
        type: kinds.oneOf('fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent').default('info'),
        text:
          'Security events are at warn (failed, refused, reused) or info. Successful validations are logged ' +
          'with debug and trace only, refused ones always.',
      },
      LOGGING_SERVICE_URL: {
        type: kinds.httpUrl.optional(),
        text: 'Receives log lines in batches. Unset, or while it fails: the console.',
      },
      LOGGING_APP_ID: {
        type: kinds.word.optional(),
        text:
          'Id of the app credential with which this service calls the logging service; `platform-auth init` ' +
          'writes it.',
      },
      LOGGING_APP_KEY: { type: kinds.word.optional(), mayBeFile: true, text: 'Key of that credential.' },
    },
  },
  {
    title: 'Console, metrics and traces',
    variables: {
      CONSOLE: {
        type: kinds.oneOf('on', 'off').optional(),
        defaultText: '`on` in development; otherwise `off`',
        example: 'on',
        text: 'The [pages of operators](operations/console.md) under `/console`, on INTERNAL_PORT where that is set.',
      },
      CONSOLE_LABEL: {
        type: kinds.accepted('1–32 characters', (text) => /^[^\p{Cc}]{1,32}$/u.test(text)).optional(),
        example: 'staging',
        text: 'The environment, in the header and the title of each page of the console. `production` is red.',
      },
      DOCS: {
        type: kinds.oneOf('on', 'internal', 'off').default('on'),
        text:
          'The description of the API under `/docs` and `/docs-json`, and the page at `/`. internal: on INTERNAL_PORT ' +
          'only, to which a proxy may give a host of its own. off: 404.',
      },
      METRICS_PORT: {
        type: kinds.wholeNumber(0, 65_535).optional(),
        example: 9464,
        text:
          'Port of METRICS_HOST on which `GET /metrics` answers Prometheus. It has no authentication: do not publish it. ' +
          'Unset: off. [observability.md](observability.md) lists what it shows.',
      },
      METRICS_HOST: {
        type: kinds.word.optional(),
        defaultText: 'that of HOST',
        example: LOOPBACK,
        text: 'Address on which METRICS_PORT listens, if the metrics have another network than the requests.',
      },
    },
    note:
      "OpenTelemetry traces are off unless the process's own environment (not `.env`) asks for them by the " +
      'standard variables, such as OTEL_EXPORTER_OTLP_ENDPOINT ([traces](observability.md#traces)).',
  },
  {
    title: 'Stop',
    variables: {
      SHUTDOWN_DELAY_MS: {
        type: kinds.wholeNumber(0, 120_000).optional(),
        defaultText: `0; production ${PRODUCTION_SHUTDOWN_DELAY_MS}`,
        example: 0,
        text:
          'How long the service goes on serving after SIGTERM while `/health` answers 503, in milliseconds. ' +
          'Behind a load balancer: a little more than it needs to notice.',
      },
    },
  },
  {
    title: 'Retention',
    variables: {
      AUDIT_RETENTION_DAYS: {
        type: kinds.wholeNumber(1, 36_500).default(365),
        text:
          'How long the [audit log](audit.md) is kept, by whole months. Ended and expired sessions are kept for ' +
          '30 days, but no longer than this.',
      },
    },
  },
] as const satisfies readonly Section[];
