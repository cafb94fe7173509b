import { Module } from '@nestjs/common';
import { SigningKeysModule } from '../../domain/signing-keys/signing-keys.module.js';
import { JwksController, ServerMetadataController } from './well-known.controller.js';

@Module({ imports: [SigningKeysModule], controllers: [JwksController, ServerMetadataController] })
export class WellKnownModule {}
