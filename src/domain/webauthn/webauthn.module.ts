import { Module } from '@nestjs/common';
import { RelyingParty } from './relying-party.js';

@Module({ providers: [RelyingParty], exports: [RelyingParty] })
export class WebAuthnModule {}
