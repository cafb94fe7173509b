import { randomBytes } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import type { Variables } from '../src/foundation/config/environment.js';

export const SERVICE_SCRIPT = fileURLToPath(new URL('../service/main.js', import.meta.url));
export { SERVICE_FLAGS } from '../src/foundation/common/service-flags.js';

interface ServiceSecrets {
  readonly SECRET_KEY: string;
  readonly MASTER_KEY: string;
  readonly ADMIN_API_KEY: string;
}

export function makeSecrets(): ServiceSecrets {
  const generate = (): string => randomBytes(32).toString('hex');
  return { SECRET_KEY: generate(), MASTER_KEY: generate(), ADMIN_API_KEY: generate() };
}

/** Makes every optional route exist. No mail server listens at port 1, so mails stay in the outbox. */
const OPTIONAL_ROUTES = {
  MAIL_URL: 'smtp://127.0.0.1:1',
  MAIL_FROM: 'accounts@example.org',
  PASSWORD_RESET_URL: 'https://app.example.org/password-reset',
  EMAIL_VERIFICATION_URL: 'https://app.example.org/email-verification',
  WEBAUTHN_RP_ID: 'app.example.org',
  WEBAUTHN_ORIGINS: 'https://app.example.org',
} as const;

/** The environment of a production service on loopback that stops without waiting for a load balancer. */
export function productionVariables(databaseUrl: string, secrets: ServiceSecrets): Variables {
  return {
    NODE_ENV: 'production',
    HOST: '127.0.0.1',
    DATABASE_URL: databaseUrl,
    SHUTDOWN_DELAY_MS: '0',
    SECRET_KEY: secrets.SECRET_KEY,
    MASTER_KEY: secrets.MASTER_KEY,
    ADMIN_API_KEY: secrets.ADMIN_API_KEY,
    ...OPTIONAL_ROUTES,
  };
}
