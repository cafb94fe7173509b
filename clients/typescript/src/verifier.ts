import { readEnvironment, toSettings, type VerifierOptions } from './options.js';
import { createSystemRuntime } from './runtime.js';
import { TestVerifier, type TestVerifierOptions } from './test-verifier.js';
import { VerifierCore } from './verifier-core.js';

/** Verifies the credentials of requests to this service. One for the process. */
export class Verifier extends VerifierCore {
  /** @throws {VerifierConfigurationError} */
  constructor(options: VerifierOptions) {
    super(toSettings(options), createSystemRuntime());
  }

  /**
   * From AUTH_URL, AUTH_APP_ID, AUTH_APP_KEY, SERVICE_NAME, and SECRET_KEY or AUTH_JWKS_URL: what `platform-auth init` writes.
   * AUTH_APP_KEY_FILE, in place of AUTH_APP_KEY, names a file with the key. Also SECRET_KEY_PREVIOUS during a rotation, JWT_ISSUER and JWT_AUDIENCE, if the authentication service has them, and
   * AUTH_OUTAGE_GRACE_SECONDS.
   * @throws {VerifierConfigurationError}
   */
  static fromEnvironment(
    options: Pick<VerifierOptions, 'outageGraceSeconds' | 'maxEntries' | 'maxQuestions' | 'logger' | 'onVerdict'> = {},
    variables: NodeJS.ProcessEnv = process.env,
  ): Verifier {
    return new Verifier({ ...readEnvironment(variables), ...options });
  }

  /** A verifier that mints and accepts credentials in memory, for the tests of a service. */
  static forTests(options: TestVerifierOptions = {}): TestVerifier {
    return new TestVerifier(options);
  }
}
