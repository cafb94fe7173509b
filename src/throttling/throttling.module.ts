import { Module } from '@nestjs/common';
import { AddressThrottle } from './address-throttle.js';
import { CounterStore } from './counter-store.js';
import { LoginThrottle } from './login-throttle.js';

@Module({
  providers: [CounterStore, LoginThrottle, AddressThrottle],
  exports: [CounterStore, LoginThrottle, AddressThrottle],
})
export class ThrottlingModule {}
