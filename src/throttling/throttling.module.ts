import { Module } from '@nestjs/common';
import { AddressThrottle } from './address-throttle.js';
import { BusyThrottle } from './busy-throttle.js';
import { LoginThrottle } from './login-throttle.js';
import { SecondFactorThrottle } from './second-factor-throttle.js';
import { MailThrottle } from './mail-throttle.js';
import { ThrottleKeys } from './throttle-keys.js';
import { ThrottleWindows } from './throttle-windows.js';

@Module({
  providers: [
    ThrottleKeys,
    ThrottleWindows,
    BusyThrottle,
    LoginThrottle,
    SecondFactorThrottle,
    AddressThrottle,
    MailThrottle,
  ],
  exports: [ThrottleWindows, BusyThrottle, LoginThrottle, SecondFactorThrottle, AddressThrottle, MailThrottle],
})
export class ThrottlingModule {}
