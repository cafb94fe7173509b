import { type DynamicModule, Global, Module } from '@nestjs/common';
import { Clock } from '../common/clock.js';
import { StartWatch } from '../common/start-watch.js';
import { Environment } from './environment.js';

@Global()
@Module({})
export class ConfigModule {
  static forRoot(environment: Environment, watch: StartWatch, clock = new Clock()): DynamicModule {
    return {
      module: ConfigModule,
      providers: [
        { provide: Environment, useValue: environment },
        { provide: StartWatch, useValue: watch },
        { provide: Clock, useValue: clock },
      ],
      exports: [Environment, StartWatch, Clock],
    };
  }
}
