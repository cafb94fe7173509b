import { ApiProperty, ApiPropertyOptional, ApiSchema, getSchemaPath } from '@nestjs/swagger';
import { ID } from '../../foundation/common/fields.js';
import { EXAMPLES } from '../../foundation/common/names.js';
import { toAct } from '../../domain/delegation/delegation-chain.js';

/** A service that passed the user on (RFC 8693 §4.1). */
@ApiSchema({ name: 'Act' })
export class ActResponse {
  @ApiProperty({ description: 'the name of the service', example: EXAMPLES.target }) sub!: string;
  @ApiProperty({ ...ID, description: 'the app_id of its pair' }) client_id!: string;

  @ApiPropertyOptional({ allOf: [{ $ref: getSchemaPath('Act') }], description: 'the service before it' })
  act?: ActResponse;
}

export const ActField = () =>
  ApiPropertyOptional({
    type: ActResponse,
    description: 'of a delegated token: its chain, the caller first',
    example: { sub: EXAMPLES.target, client_id: EXAMPLES.id },
  });

export const toActResponse: (chain: Parameters<typeof toAct>[0]) => ActResponse = toAct;
