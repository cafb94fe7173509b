import { ApiProperty, ApiPropertyOptional } from '@nestjs/swagger';
import { HOUSEHOLD_ID, HOUSEHOLD_ROLE } from '../../foundation/common/fields.js';
import type { HouseholdRole } from '../../foundation/common/names.js';

export class HouseholdOfUser {
  @ApiProperty(HOUSEHOLD_ID) id!: string;
  @ApiProperty({ ...HOUSEHOLD_ROLE, example: 'admin' }) role!: HouseholdRole;
}

export const HouseholdsField = () =>
  ApiPropertyOptional({ type: [HouseholdOfUser], description: 'where the user lives, now; empty without a household' });
