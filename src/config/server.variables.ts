import { oneOf, origins, serviceName, trustProxy, wholeNumber, word, workers } from './variable-kinds.js';
import type { Section } from './variable.js';

export const LOOPBACK = '127.0.0.1';
export const EVERY_ADDRESS = '0.0.0.0';

export const serverSection = {
  title: 'Server',
  variables: {
    NODE_ENV: {
      type: oneOf('development', 'production', 'test').default('development'),
      meaning: 'production reads no `.env`, and never makes a secret or a database of its own',
      explanation: 'development, production or test.',
    },
    HOST: {
      type: word.optional(),
      defaultText: `\`${LOOPBACK}\`; production \`${EVERY_ADDRESS}\``,
      example: LOOPBACK,
      meaning: 'address to listen on',
      explanation: `Address to listen on. Default: ${LOOPBACK}, and ${EVERY_ADDRESS} in production.`,
    },
    PORT: {
      type: wholeNumber(0, 65_535).default(7701),
      meaning: 'port to listen on; 0 takes any free port',
      explanation: '{bounds}; 0 takes any free port.',
    },
    INTERNAL_PORT: {
      type: wholeNumber(0, 65_535).optional(),
      example: 7700,
      meaning: 'serve `/internal/*` and the admin routes on this port of `HOST` only; unset: on `PORT`',
      explanation:
        'Port of HOST that serves everything, and alone /internal/*, /api/v0/admin/* and /admin/*: on PORT these are 404 ' +
        'then. Services and operators call this port; publish PORT only. {bounds}; 0 takes any free port. Unset: all ' +
        'routes are on PORT.',
    },
    SERVICE_NAME: {
      type: serviceName.default('auth'),
      meaning: "the target of the app keys that open this service's own routes",
      explanation:
        'What the other services call this one: {bounds}. Only app keys with this target open this ' +
        "service's own routes. platform-auth init makes them for the name auth.",
    },
    WORKERS: {
      type: workers.default(1),
      meaning: 'processes that share the port; `auto`: one per core. See [workers](workers.md)',
      explanation:
        'Processes that share the port, {bounds}: one for each core. Limits that are "of one process" are of each of ' +
        'them. docs/workers.md says when it is worth it.',
    },
    TRUST_PROXY: {
      type: trustProxy,
      meaning: 'whose `X-Forwarded-For` is believed, in logs and by the throttles',
      explanation:
        'Whose X-Forwarded-For is believed: false (none), true (the one nearest proxy), a digit (that many proxies), ' +
        'or the proxies\' addresses or ranges, separated by commas; "loopback" is a range too.',
    },
    CORS_ORIGINS: {
      type: origins.optional(),
      example: 'https://admin.example.org',
      meaning:
        'whose pages may call `/api/v0` from a browser (CORS); compared exactly. See [decision 18](decisions/0018-http-hygiene.md)',
      explanation:
        'Whose pages may call /api/v0 from a browser (CORS): {bounds}, each exactly as a browser sends it. "*" is refused. ' +
        'Unset: none.',
    },
  },
} satisfies Section;
