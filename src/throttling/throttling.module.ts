import { Module } from '@nestjs/common';
import { AddressThrottle } from './address-throttle.js';
import { BusyThrottle } from './busy-throttle.js';
import { LoginThrottle } from './login-throttle.js';
import { SecondFactorThrottle } from './second-factor-throttle.js';
import { ThrottleKeys } from './throttle-keys.js';
import { ThrottleWindows } from './throttle-windows.js';

@Module({
  providers: [ThrottleKeys, ThrottleWindows, BusyThrottle, LoginThrottle, SecondFactorThrottle, AddressThrottle],
  exports: [ThrottleWindows, BusyThrottle, LoginThrottle, SecondFactorThrottle, AddressThrottle],
})
export class ThrottlingModule {}
