import { Global, Module } from '@nestjs/common';
import { ExhaustedBuckets } from './exhausted-buckets.js';
import { CodeThrottle, LoginThrottle } from './guess-throttles.js';
import { RateLimitBuckets } from './rate-limit-buckets.js';
import { Throttle } from './throttle.js';
import { ThrottleWindows } from './throttle-windows.js';

@Global()
@Module({
  providers: [RateLimitBuckets, ExhaustedBuckets, ThrottleWindows, Throttle, LoginThrottle, CodeThrottle],
  exports: [ThrottleWindows, Throttle, LoginThrottle, CodeThrottle],
})
export class ThrottlingModule {}
