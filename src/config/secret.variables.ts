import { headerSecret, secret } from './variable-kinds.js';
import type { Section } from './variable.js';

const GENERATE = 'Make one with: openssl rand -base64 48';
const FIRST_START = 'In development the first start makes one and appends it to .env.';

export const secretSection = {
  title: 'Secrets',
  introduction:
    'The value of a secret may come from a file: set the variable with the suffix _FILE to its path, and not the ' +
    'variable itself. One line break at the end of the file does not count. Production reads these files too.',
  variables: {
    SECRET_KEY: {
      type: secret,
      mayBeFile: true,
      meaning: "signs access tokens; root of the refresh tokens' key",
      explanation:
        'Signs access tokens (HS256), and is the root of the key behind refresh tokens. The services that verify access ' +
        'tokens on their own need the same value. At least 32 bytes; short values and placeholders are refused.\n' +
        `${GENERATE}\nRequired in production. ${FIRST_START}`,
    },
    SECRET_KEY_PREVIOUS: {
      type: secret.optional(),
      mayBeFile: true,
      meaning: 'the former `SECRET_KEY`, during [its rotation](operations/keys.md#rotate-secret_key)',
      explanation:
        'The former SECRET_KEY, during its rotation (docs/operations/keys.md): access tokens are verified with it too, and ' +
        'signing keys decrypted. Unset otherwise.',
    },
    ADMIN_API_KEY: {
      type: headerSecret.optional(),
      mayBeFile: true,
      meaning: 'root key of the admin door; unset: only [operators](operations/operators.md) open it',
      explanation:
        'What X-Admin-Key carries with every scope. At least 32 bytes. Unset: only the keys of operators are valid\n' +
        '(docs/operations/operators.md).\n' +
        `${GENERATE}\nOptional in production. ${FIRST_START}`,
    },
    AUDIT_SEAL_KEY: {
      type: secret.optional(),
      mayBeFile: true,
      defaultText: 'derived from `SECRET_KEY`',
      meaning: 'key of the seals of the audit log; see [audit.md](audit.md)',
      explanation:
        'Key of the seals of the audit log (docs/audit.md). At least 32 bytes. Unset: a key derived from SECRET_KEY, ' +
        'which the services that verify access tokens hold too. With another key, the seals made before no longer verify.\n' +
        `${GENERATE}\nOptional in production. ${FIRST_START}`,
    },
  },
} satisfies Section;
