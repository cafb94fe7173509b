import { type DynamicModule, Global, Module } from '@nestjs/common';
import { Clock } from '../common/clock.js';
import { StartWatch } from '../common/start-watch.js';
import { Environment } from './environment.js';

/** What every room may ask for: the validated environment, the time, and the watch over the start. */
@Global()
@Module({ providers: [Clock], exports: [Clock] })
export class ConfigModule {
  static forRoot(environment: Environment, watch: StartWatch): DynamicModule {
    return {
      module: ConfigModule,
      providers: [
        { provide: Environment, useValue: environment },
        { provide: StartWatch, useValue: watch },
      ],
      exports: [Environment, StartWatch],
    };
  }
}
