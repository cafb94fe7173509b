// The keys that sign access tokens under ES256, and the JWKS that shows them. States and lifetimes are in signing-key.ts.
// Invariants: when the call that revoked a key has answered, no replica accepts its tokens; private keys leave a process
// only encrypted (signing-key-rotation.ts).

import { Controller, Get, Res, Module } from '@nestjs/common';
import { ApiOperation, ApiProperty, ApiTags } from '@nestjs/swagger';
import { TypeOrmModule } from '@nestjs/typeorm';
import type { Response } from 'express';
import { Answers, Public } from '../access/require.js';
import type { KeyPair } from '../crypto/key-pair.js';
import { SigningKeyRotation, SigningKeyVault } from './signing-key-rotation.js';
import { JWKS_MAX_AGE_SECONDS, SigningKey } from './signing-key.js';
import { SigningKeysService } from './signing-keys.service.js';

class JwkResponse {
  @ApiProperty({ enum: ['EC'] }) kty!: 'EC';
  @ApiProperty({ enum: ['P-256'] }) crv!: 'P-256';
  @ApiProperty({ type: String, example: 'f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU' }) x!: string;
  @ApiProperty({ type: String, example: 'x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0' }) y!: string;

  @ApiProperty({ type: String, description: 'RFC 7638', example: 'oKIywvGUpTVTyxMQ3bwIIeQUudfr_CkLMjCE19ECD-U' })
  kid!: string;

  @ApiProperty({ enum: ['sig'] }) use!: 'sig';
  @ApiProperty({ enum: ['ES256'] }) alg!: 'ES256';

  static from({ jwk: { kty, crv, x, y }, kid }: KeyPair): JwkResponse {
    return { kty, crv, x, y, kid, use: 'sig', alg: 'ES256' };
  }
}

class JwksResponse {
  @ApiProperty({ type: [JwkResponse] }) keys!: JwkResponse[];
}

@ApiTags('auth')
@Controller('.well-known')
class JwksController {
  constructor(private readonly keys: SigningKeysService) {}

  @Get('jwks.json')
  @Public()
  @ApiOperation({
    summary: 'The public keys that verify access tokens (RFC 7517)',
    description:
      'Empty under HS256. A new key is shown here for longer than this answer may be cached before it signs, and a ' +
      'retired one as long as its tokens live. Read the keys again when a token has an unknown `kid`.',
  })
  @Answers(200, JwksResponse)
  async listSigningKeys(@Res({ passthrough: true }) response: Response): Promise<JwksResponse> {
    const keys = (await this.keys.listPublishedKeys()).map((key) => JwkResponse.from(key));
    response.setHeader('Cache-Control', `public, max-age=${JWKS_MAX_AGE_SECONDS}`);
    return { keys };
  }
}

@Module({
  imports: [TypeOrmModule.forFeature([SigningKey])],
  controllers: [JwksController],
  providers: [SigningKeyVault, SigningKeyRotation, SigningKeysService],
  exports: [SigningKeyRotation, SigningKeysService],
})
export class SigningKeysModule {}
