import type { Misconfigurations } from './events.js';
import { isServiceName } from './options.js';
import { pause, type Runtime } from './runtime.js';

/** The name of this cause in configuration errors. */
const CAUSE = 'SERVICE_NAME';

/** Compares the configured name of this service with the one that the authentication service knows it by. */
export class ServiceName {
  private isOther = false;
  private resolveCompared = (): void => undefined;
  private readonly compared = new Promise<void>((resolve) => (this.resolveCompared = resolve));

  constructor(
    private readonly name: string,
    private readonly runtime: Runtime,
    private readonly misconfigurations: Misconfigurations,
  ) {}

  /** With a wrong name every verdict would be about another service, so nothing is asked or accepted. */
  get isWrong(): boolean {
    return this.isOther;
  }

  /** @param caller header of the answer to a poll; undefined when a proxy has dropped it */
  compare(caller: string | undefined): void {
    this.isOther = caller !== undefined && caller !== this.name;
    if (!this.isOther) {
      this.misconfigurations.clear(CAUSE);
      return;
    }
    const owner = isServiceName(caller) ? caller : 'another service';
    this.misconfigurations.report(CAUSE, `${this.name} is configured, but AUTH_APP_ID is a key of ${owner}`);
  }

  /** Ends the wait after the first poll, whether it was answered or not. */
  finish(): void {
    this.resolveCompared();
  }

  /** Questions wait for the comparison, because with a wrong name the service would refuse every key. */
  async waitUntilCompared(deadlineMs: number): Promise<void> {
    await Promise.race([this.compared, pause(this.runtime, deadlineMs - this.runtime.clocks.monotonic(), true)]);
  }
}
