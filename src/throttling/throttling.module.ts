import { Module } from '@nestjs/common';
import { AddressThrottle } from './address-throttle.js';
import { Budgets } from './budgets.js';
import { BusyThrottle } from './busy-throttle.js';
import { ExhaustedBudgets } from './exhausted-budgets.js';
import { LoginThrottle } from './login-throttle.js';
import { SecondFactorThrottle } from './second-factor-throttle.js';
import { MailThrottle } from './mail-throttle.js';
import { ThrottleWindows } from './throttle-windows.js';

@Module({
  providers: [
    Budgets,
    ExhaustedBudgets,
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
