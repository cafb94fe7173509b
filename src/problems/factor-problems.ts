/** The problems of second factors that are not a 401. */
export const factorProblems = {
  secondFactorRequired: {
    status: 403,
    code: 'second_factor_required',
    title: 'A second factor is required',
    detail: 'The password is right. Answer the challenge by one of the methods: POST /api/v0/auth/login/second-factor.',
  },
  wrongSecondFactor: {
    status: 403,
    code: 'wrong_second_factor',
    title: 'The code is wrong',
    detail:
      'The code is wrong or was used before, or the enrolment is missing or void: a change of the password ends one ' +
      'that was not confirmed. Nothing was changed, and the access token stays valid.',
  },
  totpEnrolled: {
    status: 409,
    code: 'totp_enrolled',
    title: 'The authenticator app is enrolled',
    detail: 'The account has a confirmed authenticator app (TOTP). Remove it first.',
  },
  totpSecretUnreadable: {
    status: 503,
    code: 'totp_secret_unreadable',
    title: 'Codes of the app cannot be checked',
    detail:
      'The secret of the authenticator app cannot be decrypted. This is not a verdict on the code: use a recovery code or ' +
      'a passkey. An operator must set SECRET_KEY_PREVIOUS to the former SECRET_KEY, or remove the second factors of the user.',
    retryAfterSeconds: 300,
  },
  passkeyExists: {
    status: 409,
    code: 'passkey_exists',
    title: 'The passkey is registered',
    detail: 'The passkey is registered already.',
  },
  tooManyPasskeys: {
    status: 409,
    code: 'too_many_passkeys',
    title: 'The account has too many passkeys',
    detail: 'An account has 20 passkeys at most. Remove one first.',
  },
} as const;
