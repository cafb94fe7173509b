import { oneOf, wholeNumber, word } from './variable-kinds.js';
import type { Section } from './variable.js';

export const tokenSection = {
  title: 'Tokens and sessions',
  variables: {
    JWT_ISSUER: {
      type: word.default('platform-auth'),
      meaning: 'the `iss` claim',
      explanation: 'The "iss" claim, written and demanded. {bounds}.',
    },
    JWT_AUDIENCE: {
      type: word.optional(),
      meaning: 'the `aud` claim; none when unset',
      explanation:
        'The "aud" claim, written and demanded when set. Unset: no "aud" at all, because verifiers that expect none ' +
        'refuse one.',
    },
    ACCESS_TOKEN_ALGORITHM: {
      type: oneOf('HS256', 'ES256').default('HS256'),
      meaning:
        'signs access tokens with `SECRET_KEY`, or with [signing keys](decisions/0046-signing-keys.md) that others verify ' +
        'by the JWKS',
      explanation:
        'HS256: access tokens are signed with SECRET_KEY, which the services that verify them need too. ES256: they are ' +
        'signed with keys that this service makes and rotates, and verified with /.well-known/jwks.json. After a change ' +
        'both are accepted for one token life (docs/operations/keys.md).',
    },
    SIGNING_KEY_DAYS: {
      type: wholeNumber(1, 3_650).default(90),
      meaning: 'age at which a signing key is replaced',
      explanation: 'Age at which a signing key of ES256 is replaced, {bounds} days.',
    },
    ACCESS_TOKEN_EXPIRE_MINUTES: {
      type: wholeNumber(1, 525_600).default(15),
      meaning: 'life of an access token; lower it only with [a documented wait](decisions/0006-access-tokens.md)',
      explanation: 'Life of an access token, {bounds} minutes.',
    },
    REFRESH_TOKEN_EXPIRE_DAYS: {
      type: wholeNumber(1, 3_650).default(14),
      meaning: 'life of an unused refresh token',
      explanation: 'Life of a refresh token that is not used, {bounds} days. Each refresh starts it anew.',
    },
    SESSION_MAX_AGE_DAYS: {
      type: wholeNumber(1, 3_650).default(90),
      meaning: 'life of a session, however often it is refreshed',
      explanation: 'Life of a session however often it is refreshed, {bounds} days.',
    },
    SESSION_LIMIT_PER_USER: {
      type: wholeNumber(1, 100_000).default(100),
      meaning: 'sessions of one user; a login beyond it ends the oldest',
      explanation: 'Sessions of one user, {bounds}. A login beyond it ends the oldest.',
    },
    REFRESH_GRACE_SECONDS: {
      type: wholeNumber(0, 300).default(10),
      meaning: 'how long a rotated refresh token returns its successor again',
      explanation:
        'How long a rotated refresh token returns the same successor again, because an answer may have been lost, ' +
        '{bounds} seconds.',
    },
  },
} satisfies Section;
