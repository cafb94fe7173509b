import { readEnvironment, toSettings, type VerifierOptions } from './options.js';
import { createSystemRuntime } from './runtime.js';
import { TestVerifier, type TestVerifierOptions } from './test-verifier.js';
import { VerifierCore } from './verifier-core.js';

/** Verifies the credentials of requests to this service. A process needs one. */
export class Verifier extends VerifierCore {
  /** @throws {VerifierConfigurationError} */
  constructor(options: VerifierOptions) {
    super(toSettings(options), createSystemRuntime());
  }

  /**
   * Reads AUTH_URL, AUTH_APP_ID, AUTH_APP_KEY (or AUTH_APP_KEY_FILE, a file with the key), SERVICE_NAME, and SECRET_KEY
   * or AUTH_JWKS_URL, as `platform-auth init` writes them. Optional: SECRET_KEY_PREVIOUS, JWT_ISSUER, JWT_AUDIENCE and
   * AUTH_OUTAGE_GRACE_SECONDS.
   * @throws {VerifierConfigurationError}
   */
  static fromEnvironment(
    options: Pick<VerifierOptions, 'outageGraceSeconds' | 'maxEntries' | 'maxQuestions' | 'logger' | 'onVerdict'> = {},
    variables: NodeJS.ProcessEnv = process.env,
  ): Verifier {
    return new Verifier({ ...readEnvironment(variables), ...options });
  }

  /** A verifier that issues and accepts credentials in memory, for the tests of a service. */
  static forTests(options: TestVerifierOptions = {}): TestVerifier {
    return new TestVerifier(options);
  }
}
