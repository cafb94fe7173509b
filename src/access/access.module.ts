import { Global, Module } from '@nestjs/common';
import { Doors } from './doors.js';

@Global()
@Module({ providers: [Doors], exports: [Doors] })
export class AccessModule {}
