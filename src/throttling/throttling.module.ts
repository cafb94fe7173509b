import { Module } from '@nestjs/common';
import { AddressThrottle } from './address-throttle.js';
import { BusyThrottle } from './busy-throttle.js';
import { LoginThrottle } from './login-throttle.js';
import { ThrottleKeys } from './throttle-keys.js';
import { ThrottleWindows } from './throttle-windows.js';

@Module({
  providers: [ThrottleKeys, ThrottleWindows, BusyThrottle, LoginThrottle, AddressThrottle],
  exports: [ThrottleWindows, BusyThrottle, LoginThrottle, AddressThrottle],
})
export class ThrottlingModule {}
