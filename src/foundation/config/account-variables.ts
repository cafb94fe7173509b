// Variables of what the service does for users: tokens, passwords, mail and throttles.

import { MAX_BCRYPT_COST, SITE_BUCKET_FACTOR } from './limits.js';
import { linkUrl, mailSender, mailUrl, productName } from './urls.js';
import * as kinds from './variable-kinds.js';
import type { Section } from './variable-kinds.js';

/**
 * Development prints its mails when no mail server is configured, and the developer copies the token out of the link.
 */
export const DEVELOPMENT_MAIL = {
  MAIL_FROM: { name: 'platform-auth', address: 'platform-auth@localhost' },
  PASSWORD_RESET_URL: 'http://localhost:3000/password-reset',
  EMAIL_VERIFICATION_URL: 'http://localhost:3000/email-verification',
} as const;

export const accountSections = [
  {
    title: 'Tokens and sessions',
    variables: {
      JWT_ISSUER: {
        type: kinds.word.default('platform-auth'),
        text:
          'The `iss` claim, written and demanded. As the https URL of this service it is also where ' +
          '[standard libraries](integrate-standard-libraries.md) find the keys.',
      },
      JWT_AUDIENCE: {
        type: kinds.word.optional(),
        text: 'The `aud` claim, written and demanded. Unset: none, because verifiers that expect none refuse one.',
      },
      ACCESS_TOKEN_ALGORITHM: {
        type: kinds.oneOf('HS256', 'ES256').default('HS256'),
        text:
          'HS256 signs access tokens with SECRET_KEY. ES256 signs them with ' +
          '[signing keys](decisions/0046-signing-keys.md) that this service makes and rotates, and that others ' +
          'verify by `/.well-known/jwks.json`. After a change both are accepted for the life of a token.',
      },
      SIGNING_KEY_DAYS: {
        type: kinds.wholeNumber(1, 3_650).default(90),
        text: 'Age in days at which a signing key of ES256 is replaced.',
      },
      ACCESS_TOKEN_EXPIRE_MINUTES: {
        type: kinds.wholeNumber(1, 525_600).default(15),
        text: 'Life of an access token. Lower it only with [a documented wait](decisions/0006-access-tokens.md).',
      },
      REFRESH_TOKEN_EXPIRE_DAYS: {
        type: kinds.wholeNumber(1, 3_650).default(14),
        text: 'Life of a refresh token that is not used. Each refresh starts it again.',
      },
      SESSION_MAX_AGE_DAYS: {
        type: kinds.wholeNumber(1, 3_650).default(90),
        text: 'Life of a session, however often it is refreshed.',
      },
      REFRESH_GRACE_SECONDS: {
        type: kinds.wholeNumber(0, 300).default(10),
        text:
          'How long a rotated refresh token returns the same successor again, because an answer may have been ' +
          'lost.',
      },
    },
  },
  {
    title: 'Accounts and passwords',
    variables: {
      REGISTRATION: {
        type: kinds.oneOf('open', 'closed').default('open'),
        text: 'open: any client may register a user. closed: only an administrator creates users.',
      },
      REGISTRATION_ANSWER: {
        type: kinds.oneOf('distinct', 'uniform').default('distinct'),
        text:
          'What a registration tells (ASVS 6.3.8). distinct: 201 for a new address, 409 for one that has an account. ' +
          'uniform: 202 for both, and the rest [by mail](operations/mail.md#registrations); production needs MAIL_URL.',
      },
      ADMIN_SET_PASSWORDS: {
        type: kinds.oneOf('allowed', 'refused').default('allowed'),
        text:
          'Whether an operator who creates a user may send a password, which the operator then knows. refused (ASVS ' +
          '6.4.6): the user always chooses one, by an [invitation](operations/mail.md#invitations).',
      },
      REQUIRE_VERIFIED_EMAIL: {
        type: kinds.flag,
        text:
          'true: a user must open the [link](operations/mail.md) that a registration sends before the first ' +
          'login; until then a login with the right password is 403 `email_not_verified`.',
      },
      SECOND_FACTOR_REQUIRED: {
        type: kinds.ruleStart,
        text:
          'true, or the date from which it holds: every user needs a [second factor](second-factors.md#required). A ' +
          'login without one continues with the enrolment of an authenticator app, and no session without one is ' +
          'refreshed.',
      },
      PRODUCT_NAME: {
        type: productName.optional(),
        defaultText: '`WEBAUTHN_RP_ID`, or else `SERVICE_NAME`',
        example: 'Example',
        text: 'What mails and authenticator apps call your product.',
      },
      BCRYPT_COST: {
        type: kinds.wholeNumber(4, MAX_BCRYPT_COST).default(12),
        text:
          'Cost of bcrypt. One step more doubles the work of each login. A raised cost rehashes each password at ' +
          'the next login; a lowered one never weakens a stored hash.',
      },
      PASSWORD_MIN_LENGTH: {
        type: kinds.wholeNumber(1, 128).default(8),
        text: 'Fewest characters of a new password. The most is always 256.',
      },
      PASSWORD_BLOCKLIST: {
        type: kinds.passwordBlocklist.default('common'),
        text:
          'Passwords that are refused, and what is made of them ([decision 4](decisions/0004-passwords.md)): common ' +
          '(the 10,000 most used of the minimum length), off, or the path of a file with one on each line, the most ' +
          'used first.',
      },
      PASSWORD_CONTEXT_WORDS: {
        type: kinds.words.optional(),
        example: 'example,recipes',
        text:
          'More words that a password may not be made of: names of your company, products and services. The address of ' +
          'the account, PRODUCT_NAME and SERVICE_NAME are known.',
      },
      PASSWORD_BREACH_CHECK_URL: {
        type: kinds.httpUrl.optional(),
        example: 'https://api.pwnedpasswords.com/range/',
        text:
          'Service that knows the passwords of data breaches: new ones that it knows are refused. It gets the first 5 ' +
          'digits of the SHA-1 digest (k-anonymity). While it does not answer within 2 seconds, passwords are accepted ' +
          'without it, and the log says so. Unset: no service is asked.',
      },
      WEBAUTHN_RP_ID: {
        type: kinds.relyingPartyId.optional(),
        defaultText: 'none; in development `localhost`',
        example: 'example.org',
        text:
          'Domain that passkeys belong to (relying party id, without scheme and port). A change makes all ' +
          'passkeys unusable. Unset: the routes of [passkeys](second-factors.md) answer 404.',
      },
      WEBAUTHN_ORIGINS: {
        type: kinds.origins.optional(),
        defaultText: 'none; in development `http://localhost:PORT`',
        example: 'https://www.example.org',
        text:
          'Origins of the pages on which users register passkeys and log in with them, each exactly as a browser ' +
          'sends it. Their hosts are WEBAUTHN_RP_ID or below it.',
      },
    },
  },
  {
    title: 'E-mail',
    variables: {
      MAIL_URL: {
        type: mailUrl.optional(),
        mayBeFile: true,
        example: 'smtps://user:password@mail.example.org:465',
        text:
          'The mail server for [links by e-mail](operations/mail.md): smtps://user:password@host:465, or smtp:// ' +
          '(port 587), which needs STARTTLS except on loopback; `?tls=required` demands it there too, `?tls=off` ' +
          'sends mails and password as plain text. Special characters of user and password are percent-encoded. ' +
          'Unset: development prints each mail, and production answers 404 on the routes that need mail.',
      },
      MAIL_FROM: {
        type: mailSender.optional(),
        example: 'Example <accounts@example.org>',
        text: 'The sender of every mail.',
      },
      PASSWORD_RESET_URL: {
        type: linkUrl.optional(),
        example: 'https://app.example.org/password-reset',
        text:
          'The page of your application that asks for the new password. The link adds `#token=…`, which browsers ' +
          'send to no server.',
      },
      EMAIL_VERIFICATION_URL: {
        type: linkUrl.optional(),
        example: 'https://app.example.org/email-verification',
        text: 'The page of your application that confirms an e-mail address, with `#token=…` as above.',
      },
      MAIL_TEMPLATES_DIR: {
        type: kinds.folder.optional(),
        example: '/etc/platform-auth/mail',
        text:
          'Folder of [your own texts](operations/mail.md#texts-of-your-own), which replace the built-in ones. A ' +
          'missing file or an unknown placeholder stops the start.',
      },
    },
  },
  {
    title: 'Throttles',
    introduction:
      'Each limit is points/seconds: at most that many attempts in a window that starts with the first one. An ' +
      `address is an IPv4 address or an IPv6 /64; an IPv6 /48 has ${SITE_BUCKET_FACTOR} times the points, but for ` +
      'one account no more than a quarter of LOGIN_LIMIT_PER_ACCOUNT. Behind a proxy that TRUST_PROXY does not ' +
      "name, all clients share the proxy's limits. [throttling.md](throttling.md) has the other limits, which are " +
      'fixed.',
    variables: {
      LOGIN_LIMIT_PER_ACCOUNT_AND_ADDRESS: {
        type: kinds.limit('10/900'),
        text:
          'Failed logins per account and address. No other login limit applies at an address from which the ' +
          'account logged in recently.',
      },
      LOGIN_LIMIT_PER_ACCOUNT: {
        type: kinds.limit('100/900'),
        text: 'Failed logins per account from unknown addresses.',
      },
      LOGIN_LIMIT_PER_ADDRESS: {
        type: kinds.limit('1000/900'),
        text: 'Failed logins per address, for all accounts together.',
      },
      REGISTRATION_LIMIT_PER_ADDRESS: {
        type: kinds.limit('1000/3600'),
        text: 'Registrations per address, successful and refused ones.',
      },
      REFRESH_LIMIT_PER_ADDRESS: {
        type: kinds.limit('6000/60'),
        text: 'Refreshes per address, successful and refused ones.',
      },
    },
  },
] as const satisfies readonly Section[];
