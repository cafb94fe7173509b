import { ApiProperty } from '@nestjs/swagger';
import type { AppCredential } from '../app-credentials/app-credential.entity.js';
import { ExpiresAtField, ServiceNameField } from '../common/fields.js';
import { PageQuery, createPageResponse } from '../http/page.js';
import { KeyResponse } from './key.dto.js';

export class MintAppCredentialRequest {
  @ServiceNameField('command-orchestration')
  caller!: string;

  @ServiceNameField('speech-to-text')
  target!: string;

  @ExpiresAtField()
  expires_at?: string | null;
}

export class AppCredentialsQuery extends PageQuery {
  @ServiceNameField('command-orchestration', true)
  caller?: string;

  @ServiceNameField('speech-to-text', true)
  target?: string;
}

export class AppCredentialResponse extends KeyResponse {
  @ApiProperty({ type: String, format: 'uuid', example: '01985f4e-7c3a-7b52-9d1e-2f6a8c4b0d11' })
  app_id!: string;

  @ApiProperty({ example: 'command-orchestration' })
  caller!: string;

  @ApiProperty({ example: 'speech-to-text' })
  target!: string;

  static from(credential: AppCredential): AppCredentialResponse {
    return {
      app_id: credential.id,
      caller: credential.caller,
      target: credential.target,
      ...KeyResponse.toKeyFields(credential),
    };
  }
}

export class IssuedAppCredentialResponse extends AppCredentialResponse {
  @ApiProperty({ description: 'shown only in this response', example: 'pa_app_7Qd…' })
  app_key!: string;

  static fromIssued(credential: AppCredential, key: string): IssuedAppCredentialResponse {
    return { ...AppCredentialResponse.from(credential), app_key: key };
  }
}

export class AppCredentialPageResponse extends createPageResponse<AppCredential, AppCredentialResponse>(
  AppCredentialResponse,
) {}
