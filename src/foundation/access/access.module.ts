import { Global, Module } from '@nestjs/common';
import { RouteTable } from './route-table.js';
import { Doors } from './doors.js';

@Global()
@Module({ providers: [Doors, RouteTable], exports: [Doors, RouteTable] })
export class AccessModule {}
