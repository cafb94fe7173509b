import { ApiProperty } from '@nestjs/swagger';
import type { AppCredential } from '../app-credentials/app-credentials.service.js';
import { EXAMPLES } from '../common/examples.js';
import { ExpiresAtField, ServiceNameField } from '../common/fields.js';
import { PageQuery, createPageResponse } from '../http/page.js';
import { KeyResponse } from './key.dto.js';

export class MintAppCredentialRequest {
  @ServiceNameField(EXAMPLES.caller)
  caller!: string;

  @ServiceNameField(EXAMPLES.target)
  target!: string;

  @ExpiresAtField()
  expires_at?: string | null;
}

export class AppCredentialsQuery extends PageQuery {
  @ServiceNameField(EXAMPLES.caller, { optional: true })
  caller?: string;

  @ServiceNameField(EXAMPLES.target, { optional: true })
  target?: string;
}

export class AppCredentialResponse extends KeyResponse {
  @ApiProperty({ type: String, format: 'uuid', example: EXAMPLES.id })
  app_id!: string;

  @ApiProperty({ example: EXAMPLES.caller })
  caller!: string;

  @ApiProperty({ example: EXAMPLES.target })
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
