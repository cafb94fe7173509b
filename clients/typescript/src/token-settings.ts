import type { Misconfigurations } from './events.js';
import type { Runtime } from './runtime.js';

/** A setting that a token is compared with. Its name is the cause in configuration errors. */
export type TokenSetting = 'SECRET_KEY' | 'AUTH_JWKS_URL' | 'JWT_ISSUER' | 'JWT_AUDIENCE';

/** Limits the questions about one setting, so that a flood of forged tokens does not reach the service. */
const QUESTION_PAUSE_MS = 10_000;
const DETAIL =
  'the service accepts a token that does not fit this setting: give it the value of the service, and restart';

interface Doubt {
  askedAtMs: number;
  asking: Promise<boolean | undefined>;
  /** Undefined until the service has answered. */
  isWrong: boolean | undefined;
}

/** Tells a forged token from a wrong setting of this verifier: a setting is wrong when the service accepts the token. */
export class TokenSettings {
  private readonly doubts = new Map<TokenSetting, Doubt>();

  constructor(
    private readonly runtime: Runtime,
    private readonly misconfigurations: Misconfigurations,
  ) {}

  /**
   * @param setting that the token does not fit
   * @param ask whether the service accepts the token; undefined when it could not tell
   * @returns false when it is not known either
   */
  async isForged(setting: TokenSetting, ask: () => Promise<boolean | undefined>): Promise<boolean> {
    const doubt = this.getDoubt(setting);
    const nowMs = this.runtime.clocks.monotonic();
    if (nowMs < doubt.askedAtMs + QUESTION_PAUSE_MS) {
      if (doubt.isWrong === undefined) await doubt.asking;
      return doubt.isWrong === false;
    }
    doubt.askedAtMs = nowMs;
    doubt.asking = this.ask(setting, doubt, ask);
    const isAccepted = await doubt.asking;
    return isAccepted === false || doubt.isWrong === false;
  }

  /** Called when the service has accepted a token that fits the setting. */
  confirm(): void {
    for (const [setting, doubt] of this.doubts) {
      doubt.isWrong = false;
      this.misconfigurations.clear(setting);
    }
  }

  private getDoubt(setting: TokenSetting): Doubt {
    const doubt = this.doubts.get(setting) ?? {
      askedAtMs: -Infinity,
      asking: Promise.resolve(undefined),
      isWrong: undefined,
    };
    this.doubts.set(setting, doubt);
    return doubt;
  }

  /** A refusal does not prove the setting right, because a forged token is refused in any case. */
  private async ask(
    setting: TokenSetting,
    doubt: Doubt,
    ask: () => Promise<boolean | undefined>,
  ): Promise<boolean | undefined> {
    const isAccepted = await ask();
    if (isAccepted) {
      doubt.isWrong = true;
      this.misconfigurations.report(setting, DETAIL);
    } else if (isAccepted === false) {
      doubt.isWrong ??= false;
    }
    return isAccepted;
  }
}
