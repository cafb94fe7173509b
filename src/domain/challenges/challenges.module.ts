import { Module } from '@nestjs/common';
import { Challenges } from './challenges.js';

@Module({ providers: [Challenges], exports: [Challenges] })
export class ChallengesModule {}
