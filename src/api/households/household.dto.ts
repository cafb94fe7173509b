import { ApiProperty } from '@nestjs/swagger';
import { IsIn } from 'class-validator';
import { applyDecorators } from '@nestjs/common';
import type { OwnHousehold } from '../../domain/households/households.service.js';
import type { InvitationView } from '../../domain/households/invitations.service.js';
import type { Member } from '../../domain/households/members.service.js';
import { CODE_STATES, type CodeState } from '../../domain/keys/one-time-codes.js';
import {
  EMAIL,
  FlagField,
  HOUSEHOLD_ID,
  HOUSEHOLD_ROLE,
  ID,
  LabelField,
  MOMENT,
  NULLABLE_MOMENT,
  NULLABLE_TEXT,
  PasswordField,
  WholeNumberField,
} from '../../foundation/common/fields.js';
import { EXAMPLES, HOUSEHOLD_ROLES, type HouseholdRole } from '../../foundation/common/names.js';
import { createPageResponse } from '../../foundation/http/page.dto.js';
import { CURRENT_PASSWORD, FreshFactorFields } from '../account/second-factor.dto.js';

export function RoleField(): PropertyDecorator {
  return applyDecorators(
    ApiProperty(HOUSEHOLD_ROLE),
    IsIn(HOUSEHOLD_ROLES, { message: `must be one of ${HOUSEHOLD_ROLES.join(', ')}` }),
  );
}

/** One day, because the chance to guess a code grows with the time for which codes are valid (docs/throttling.md). */
export const MAX_ENROLMENT_MINUTES = 1_440;
export const DEFAULT_ENROLMENT_MINUTES = 10;

export const EnrolmentMinutesField = () =>
  WholeNumberField(
    1,
    MAX_ENROLMENT_MINUTES,
    `for how long the code can be used. Default: ${DEFAULT_ENROLMENT_MINUTES}`,
    DEFAULT_ENROLMENT_MINUTES,
  );

export class DeleteHouseholdQuery {
  @FlagField('revoke the live nodes of the household with it') revoke_nodes?: true;
}

export class HouseholdNameRequest {
  @LabelField('home') name!: string;
}

/** Reauthentication of the caller, for actions for which a stolen access token must not suffice. */
export class ProvenRequest extends FreshFactorFields {
  @PasswordField(CURRENT_PASSWORD, { optional: true })
  password?: string;
}

export class ChangeRoleRequest extends ProvenRequest {
  @RoleField() role!: HouseholdRole;
}

export class HouseholdFields {
  @ApiProperty(HOUSEHOLD_ID) id!: string;

  @ApiProperty({ ...NULLABLE_TEXT, description: 'null: a node named the household first', example: 'home' })
  name!: string | null;

  @ApiProperty(MOMENT) created_at!: string;
  @ApiProperty(MOMENT) updated_at!: string;

  static toFields({ id, name, createdAt, updatedAt }: Omit<OwnHousehold, 'role'>): HouseholdFields {
    return { id, name, created_at: createdAt.toISOString(), updated_at: updatedAt.toISOString() };
  }
}

export class HouseholdResponse extends HouseholdFields {
  @ApiProperty({ ...HOUSEHOLD_ROLE, description: 'of the caller', example: 'admin' }) role!: HouseholdRole;

  static from(household: OwnHousehold): HouseholdResponse {
    return { ...HouseholdFields.toFields(household), role: household.role };
  }
}

export class HouseholdPageResponse extends createPageResponse(HouseholdResponse) {}

export class HouseholdMemberResponse {
  @ApiProperty(ID) id!: string;
  @ApiProperty(EMAIL) email!: string;
  @ApiProperty(HOUSEHOLD_ROLE) role!: HouseholdRole;
  @ApiProperty({ ...MOMENT, description: 'when the person joined' }) since!: string;

  static from({ id, email, role, since }: Member): HouseholdMemberResponse {
    return { id, email, role, since: since.toISOString() };
  }
}

export class HouseholdMemberPageResponse extends createPageResponse(HouseholdMemberResponse) {}

export class InvitationResponse {
  @ApiProperty(ID) id!: string;
  @ApiProperty(HOUSEHOLD_ID) household_id!: string;
  @ApiProperty({ enum: CODE_STATES, enumName: 'InvitationState', example: 'open' }) state!: CodeState;
  @ApiProperty({ ...ID, description: 'the admin who issued it' }) issued_by!: string;
  @ApiProperty(MOMENT) created_at!: string;
  @ApiProperty(MOMENT) expires_at!: string;
  @ApiProperty(NULLABLE_MOMENT) used_at!: string | null;
  @ApiProperty({ ...ID, nullable: true, description: 'the user who used it', example: null }) used_by!: string | null;

  static from({ invitation, state }: InvitationView): InvitationResponse {
    return {
      id: invitation.id,
      household_id: invitation.householdId,
      state,
      issued_by: invitation.issuedBy,
      created_at: invitation.createdAt.toISOString(),
      expires_at: invitation.expiresAt.toISOString(),
      used_at: invitation.usedAt?.toISOString() ?? null,
      used_by: invitation.usedBy ?? null,
    };
  }
}

export class IssuedInvitationResponse extends InvitationResponse {
  @ApiProperty({
    description: 'for a link or a QR code; shown only in this response',
    example: EXAMPLES.invitationCode,
  })
  code!: string;
}

export class InvitationPageResponse extends createPageResponse(InvitationResponse) {}
