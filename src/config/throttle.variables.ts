import { SITE_BUDGET_FACTOR } from './limits.js';
import { limit, wholeNumber } from './variable-kinds.js';
import type { Section } from './variable.js';

export const throttleSection = {
  title: 'Throttles',
  introduction:
    'Each limit is points/seconds: at most that many attempts (1 to 9999999) in a window (1 to 86400 seconds) that ' +
    'starts with the first one. An address is an IPv4 address, the /64 of an IPv6 one, or with ' +
    `${SITE_BUDGET_FACTOR} times the points its /48. Which address counts, TRUST_PROXY decides. Behind a proxy that ` +
    "TRUST_PROXY does not name, all clients share the proxy's limits.",
  variables: {
    LOGIN_LIMIT_PER_ACCOUNT_AND_ADDRESS: {
      type: limit('10/900'),
      meaning: 'wrong passwords for one account from one address; see [throttles](throttling.md)',
      explanation:
        'Wrong passwords for one account from one address. The only limit at an address where the account logged in ' +
        'lately.',
    },
    LOGIN_LIMIT_PER_ACCOUNT: {
      type: limit('100/900'),
      meaning: '… for one account from all addresses it is not known at',
      explanation: 'Wrong passwords for one account, from all addresses together.',
    },
    LOGIN_LIMIT_PER_ADDRESS: {
      type: limit('1000/900'),
      meaning: '… for all accounts from one address',
      explanation: 'Wrong passwords from one address, for all accounts together.',
    },
    SECOND_FACTOR_LIMIT_PER_ACCOUNT: {
      type: limit('5/900'),
      meaning: 'wrong codes of second factors for one account',
      explanation: 'Wrong codes (TOTP and recovery codes) for one account, from all addresses together.',
    },
    SECOND_FACTOR_LIMIT_PER_ADDRESS: {
      type: limit('1000/900'),
      meaning:
        'answers to second factors, logins with passkeys and renamings of passkeys from one address, also good ones',
      explanation: 'Second factors, logins with passkeys and renamings of passkeys from one address, also good ones.',
    },
    HASHING_BUSY_LIMIT_PER_ADDRESS: {
      type: limit('200/60'),
      meaning: 'logins and registrations from one address that a full password queue refused',
      explanation:
        'Logins and registrations from one address that found no place in the password queue of one replica (503).',
    },
    ADMIN_KEY_LIMIT_PER_ADDRESS: {
      type: limit('20/900'),
      meaning: 'wrong admin keys from one address',
      explanation: 'Wrong admin keys from one address. The right key always passes.',
    },
    REGISTRATION_LIMIT_PER_ADDRESS: {
      type: limit('1000/3600'),
      meaning: 'registrations, also refused ones',
      explanation: 'Registrations from one address, also refused ones.',
    },
    REFRESH_LIMIT_PER_ADDRESS: {
      type: limit('6000/60'),
      meaning: 'refreshes, also refused ones',
      explanation: 'Refreshes from one address, also refused ones.',
    },
    MAIL_LIMIT_PER_ADDRESS: {
      type: limit('300/3600'),
      meaning: 'requests for a link by e-mail from one address',
      explanation: 'Requests for a link by e-mail (password reset, verification, change of address) from one address.',
    },
    MAIL_LIMIT_PER_ACCOUNT: {
      type: limit('10/3600'),
      meaning: '… for one e-mail address, whether it has an account or not',
      explanation: 'The same for one e-mail address, whether it has an account or not: the mails that it may get.',
    },
    LINK_LIMIT_PER_ADDRESS: {
      type: limit('1000/3600'),
      meaning: 'tokens of links that are presented, also valid ones',
      explanation: 'Tokens of links that are presented from one address, also valid ones.',
    },
    KNOWN_ADDRESS_DAYS: {
      type: wholeNumber(1, 365).default(30),
      meaning: 'how long an address is known to an account after a login',
      explanation: 'How long an account knows the address of a login, {bounds} days. Each login starts it anew.',
    },
  },
} satisfies Section;
