import { Global, Module } from '@nestjs/common';
import { ExhaustedBudgets } from './exhausted-budgets.js';
import { LoginThrottle, SecondFactorThrottle } from './guess-throttles.js';
import { Budgets } from './policies.js';
import { ThrottleWindows } from './throttle-windows.js';
import { Throttle } from './throttle.js';

@Global()
@Module({
  providers: [Budgets, ExhaustedBudgets, ThrottleWindows, Throttle, LoginThrottle, SecondFactorThrottle],
  exports: [ThrottleWindows, Throttle, LoginThrottle, SecondFactorThrottle],
})
export class ThrottlingModule {}
