import type { OnApplicationShutdown, OnModuleInit } from '@nestjs/common';
import type { Environment } from '../config/environment.js';

const MS_PER_MINUTE = 60_000;

/** Work that is done every `PURGE_INTERVAL_MINUTES`, and keeps no process alive. */
export abstract class PeriodicJob implements OnModuleInit, OnApplicationShutdown {
  protected abstract readonly environment: Environment;
  private timer: NodeJS.Timeout | undefined;

  onModuleInit(): void {
    this.timer = setInterval(() => void this.run(), this.environment.purgeIntervalMinutes * MS_PER_MINUTE).unref();
  }

  onApplicationShutdown(): void {
    clearInterval(this.timer);
  }

  /** Never fails: what goes wrong is logged, and tried again next time. */
  abstract run(): Promise<unknown>;
}
