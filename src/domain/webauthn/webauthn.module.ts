import { Module } from '@nestjs/common';
import { Challenges } from './challenges.js';
import { RelyingParty } from './relying-party.js';

@Module({ providers: [Challenges, RelyingParty], exports: [Challenges, RelyingParty] })
export class WebAuthnModule {}
