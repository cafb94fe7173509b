import { ApiProperty, ApiPropertyOptional } from '@nestjs/swagger';
import { HOUSEHOLD_ID, HOUSEHOLD_ROLE, type Presence } from '../../foundation/common/fields.js';
import type { HouseholdRole } from '../../foundation/common/names.js';

export class HouseholdOfUser {
  @ApiProperty(HOUSEHOLD_ID) id!: string;
  @ApiProperty({ ...HOUSEHOLD_ROLE, example: 'admin' }) role!: HouseholdRole;
}

export function HouseholdsField({ optional = false }: Presence = {}): PropertyDecorator {
  const description = 'where the user lives, now; empty without a household';
  return (optional ? ApiPropertyOptional : ApiProperty)({ type: [HouseholdOfUser], description });
}
