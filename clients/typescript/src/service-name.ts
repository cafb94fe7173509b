import type { Misconfigurations } from './events.js';
import { isServiceName } from './options.js';
import { pause, type Runtime } from './runtime.js';

/** Names the cause of a configuration error. */
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

  /** Every verdict would be about another service: no question is asked, and nothing is accepted. */
  get isWrong(): boolean {
    return this.isOther;
  }

  /** @param caller of the answer to a poll; undefined when a proxy has dropped the header */
  compare(caller: string | undefined): void {
    this.isOther = caller !== undefined && caller !== this.name;
    if (!this.isOther) {
      this.misconfigurations.clear(CAUSE);
      return;
    }
    const owner = isServiceName(caller) ? caller : 'another service';
    this.misconfigurations.report(CAUSE, `${this.name} is configured, but AUTH_APP_ID is a key of ${owner}`);
  }

  /** To be called after the first poll, answered or not. */
  finish(): void {
    this.resolveCompared();
  }

  /** With the name of another service, every key would be refused. */
  async waitUntilCompared(deadlineMs: number): Promise<void> {
    await Promise.race([this.compared, pause(this.runtime, deadlineMs - this.runtime.clocks.monotonic(), true)]);
  }
}
