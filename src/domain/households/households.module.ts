import { Module } from '@nestjs/common';
import { Memberships } from './memberships.js';

@Module({ providers: [Memberships], exports: [Memberships] })
export class HouseholdsModule {}
