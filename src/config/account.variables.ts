import { MAX_BCRYPT_COST } from './limits.js';
import { flag, oneOf, origins, passwordBlocklist, relyingPartyId, wholeNumber } from './variable-kinds.js';
import type { Section } from './variable.js';

/** For all workers together. */
export const DEFAULT_HASH_QUEUE_LIMIT = 100;

export const accountSection = {
  title: 'Accounts and passwords',
  variables: {
    REGISTRATION: {
      type: oneOf('open', 'closed').default('open'),
      meaning: 'whether clients may register themselves',
      explanation: 'open: any client may register. closed: only an administrator creates users.',
    },
    REQUIRE_VERIFIED_EMAIL: {
      type: flag,
      meaning: 'a login needs a proven e-mail address; see [links by e-mail](operations/mail.md)',
      explanation:
        'true: a registration sends a link that proves the e-mail address, and until then a login with the right ' +
        'password is 403 email_not_verified. In production it needs MAIL_URL.',
    },
    BCRYPT_COST: {
      type: wholeNumber(4, MAX_BCRYPT_COST).default(12),
      meaning: 'cost of bcrypt; each step doubles the work of a login',
      explanation:
        'Cost of bcrypt, {bounds}. One step more doubles the work of each login. A raised cost reaches each stored hash ' +
        "at its owner's next login; a lowered one never weakens a stored hash.",
    },
    HASH_THREADS: {
      type: wholeNumber(1, 128).optional(),
      defaultText: 'one a core, shared by the workers',
      example: 4,
      meaning: 'hashing threads of one process',
      explanation:
        'Threads of one process that hash passwords, {bounds}. Default: one for each core, shared by the WORKERS.',
    },
    HASH_QUEUE_LIMIT: {
      type: wholeNumber(1, 10_000).optional(),
      defaultText: `${DEFAULT_HASH_QUEUE_LIMIT}, shared by the workers`,
      example: DEFAULT_HASH_QUEUE_LIMIT,
      meaning: 'passwords that may wait in one process; one more is 503',
      explanation:
        'Passwords that may wait for a thread of one process, {bounds}. One more is answered 503 with Retry-After. ' +
        `Default: ${DEFAULT_HASH_QUEUE_LIMIT}, shared by the WORKERS.`,
    },
    PASSWORD_MIN_LENGTH: {
      type: wholeNumber(1, 128).default(8),
      meaning: 'of a new password, in characters; the most is 256',
      explanation: 'Fewest characters of a new password, {bounds}. The most is always 256.',
    },
    PASSWORD_BLOCKLIST: {
      type: passwordBlocklist.default('common'),
      meaning: 'passwords that are refused: the 10,000 most common, none, or one a line of a file',
      explanation:
        'Passwords that are refused: common (the 10,000 most used), off, or the path of a file with one password a line.',
    },
    WEBAUTHN_RP_ID: {
      type: relyingPartyId.optional(),
      defaultText: 'none; in development `localhost`',
      example: 'example.org',
      meaning: 'domain that passkeys belong to; unset: no passkeys (404). See [second factors](second-factors.md)',
      explanation:
        'Domain that passkeys belong to (relying party id), without scheme and port. Another one later makes all passkeys ' +
        'unusable. Unset: the routes of passkeys answer 404; in development localhost.',
    },
    WEBAUTHN_ORIGINS: {
      type: origins.optional(),
      defaultText: 'none; in development `http://localhost:PORT`',
      example: 'https://www.example.org',
      meaning: 'origins of the pages on which users log in with passkeys; of `WEBAUTHN_RP_ID` or below it',
      explanation:
        'Origins of the pages on which users register passkeys and log in with them: {bounds}, each exactly as a browser ' +
        'sends it. The host is WEBAUTHN_RP_ID or below it.',
    },
  },
} satisfies Section;
