/** A developer can continue in the OpenAPI document or the help of `platform-auth` what the README began. */
export const EXAMPLES = {
  id: '01985f4e-7c3a-7b52-9d1e-2f6a8c4b0d11',
  moment: '2026-11-21T09:00:00.000Z',
  email: 'alice@example.org',
  password: 'correct horse battery',
  newPassword: 'staple the correct horse',
  network: '192.0.2.7',
  userAgent: 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0',
  householdId: '5b1c7a9e-0d35-4c8e-9a57-6f0b1f4f2a10',
  room: 'kitchen',
  name: 'speaker',
  caller: 'ocr',
  target: 'recipes',
  resetToken: 'pa_reset_3q2-7wAbC0dEfGhIjKlMnOpQrStUvWxYz…',
  emailToken: 'pa_email_3q2-7wAbC0dEfGhIjKlMnOpQrStUvWxYz…',
  enrolmentCode: '7KQ2M-XV9TB',
  operator: 'alice',
} as const;
