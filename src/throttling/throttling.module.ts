import { Module } from '@nestjs/common';
import { AddressThrottle } from './address-throttle.js';
import { LoginThrottle } from './login-throttle.js';
import { ThrottleWindows } from './throttle-windows.js';

@Module({
  providers: [ThrottleWindows, LoginThrottle, AddressThrottle],
  exports: [ThrottleWindows, LoginThrottle, AddressThrottle],
})
export class ThrottlingModule {}
