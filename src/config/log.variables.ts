import { flag, httpUrl, oneOf, word } from './variable-kinds.js';
import type { Section } from './variable.js';

export const logSection = {
  title: 'Logs',
  variables: {
    LOG_LEVEL: {
      type: oneOf('fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent').default('info'),
      meaning: 'security events are `warn` (failed, refused, reused) or `info`',
      explanation:
        'fatal, error, warn, info, debug, trace or silent. Security events are at info, failures, refusals and reuse at ' +
        'warn.',
    },
    LOG_VALIDATIONS: {
      type: flag,
      meaning: 'log successful validations too; refusals are always logged',
      explanation: 'true: log successful validations of app and node keys too. Refusals are always logged.',
    },
    LOGGING_SERVICE_URL: {
      type: httpUrl.optional(),
      meaning: 'receives log lines in batches; unset, or while it fails, the console is used',
      explanation:
        'The URL that receives log lines in batches: POST {"logs": [...]}. Unset, or while it fails: the console.',
    },
    LOGGING_APP_ID: {
      type: word.optional(),
      meaning: 'our own app credential for the logging service: its id',
      explanation: "Id of this service's own app credential for the logging service; it is sent as an app header.",
    },
    LOGGING_APP_KEY: {
      type: word.optional(),
      mayBeFile: true,
      meaning: '… and its key',
      explanation: 'The key of that credential.',
    },
  },
} satisfies Section;
