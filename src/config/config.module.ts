import { type DynamicModule, Global, Module } from '@nestjs/common';
import { Clock } from '../common/clock.js';
import { Environment } from './environment.js';

/** What every room may ask for: the validated environment and the time. */
@Global()
@Module({ providers: [Clock], exports: [Clock] })
export class ConfigModule {
  static forRoot(environment: Environment): DynamicModule {
    return {
      module: ConfigModule,
      providers: [{ provide: Environment, useValue: environment }],
      exports: [Environment],
    };
  }
}
