import { Get, Req } from '@nestjs/common';
import { ApiProperty } from '@nestjs/swagger';
import type { Request } from 'express';
import { getPrincipal } from '../../foundation/access/principals.js';
import { AdminController, RequireAdmin } from '../../foundation/access/route-decorators.js';
import { NULLABLE_MOMENT } from '../../foundation/common/fields.js';
import { CHECK_NAMES, SUBJECT_TYPES, type Check, type Finding } from '../../domain/status/finding.js';
import { Findings, type Report } from '../../domain/status/findings.js';
import { hasScope } from './admin.door.js';

type Subject = NonNullable<Finding['subject']>;

class FindingSubjectResponse implements Subject {
  @ApiProperty({ enum: SUBJECT_TYPES, enumName: 'FindingSubjectType' }) type!: Subject['type'];
  @ApiProperty({
    description: 'an id, an address, a host or a service; empty for all further keys',
    example: '192.0.2.7',
  })
  id!: string;
  @ApiProperty({ example: '192.0.2.7' }) name!: string;
}

export class FindingResponse {
  @ApiProperty({ enum: CHECK_NAMES, enumName: 'FindingCheck' }) check!: Check;
  @ApiProperty({ enum: ['critical', 'warning'], enumName: 'FindingSeverity' }) severity!: Finding['severity'];
  @ApiProperty({ type: FindingSubjectResponse, nullable: true }) subject!: Subject | null;
  @ApiProperty({ example: '420 wrong guesses at 35 accounts, most at alice@example.org; still going on.' })
  detail!: string;
  @ApiProperty(NULLABLE_MOMENT) since!: string | null;
  @ApiProperty({ ...NULLABLE_MOMENT, description: 'the deadline' }) until!: string | null;

  static from({ check, severity, subject, detail, since, until }: Finding): FindingResponse {
    const [sinceText = null, untilText = null] = [since?.toISOString(), until?.toISOString()];
    return { check, severity, subject, detail, since: sinceText, until: untilText };
  }
}

class FindingsResponse {
  @ApiProperty({ format: 'date-time', example: '2026-11-26T14:05:00.000Z' }) at!: string;

  @ApiProperty({ enum: CHECK_NAMES, enumName: 'FindingCheck', isArray: true, description: 'what the scopes allow' })
  looked_at!: Check[];

  @ApiProperty({ type: [FindingResponse], description: 'the worst first' }) items!: FindingResponse[];

  static from({ at, checked, findings }: Report): FindingsResponse {
    return { at: at.toISOString(), looked_at: checked, items: findings.map((each) => FindingResponse.from(each)) };
  }
}

@AdminController('/findings')
export class FindingsAdminController {
  constructor(private readonly findings: Findings) {}

  @Get()
  @RequireAdmin('any', {
    summary: 'What needs a person?',
    description:
      'Waves of guesses, clocks, seals, the archive of PostgreSQL, mail and jobs that are behind, services whose verifiers ' +
      'are silent or have not read deletions of users, pairs for users that are not used, households without an active admin, old keys that are used near their deadline, and keys that expire within 14 days, as far as the scopes ' +
      'of the operator allow.',
    returns: FindingsResponse,
  })
  async listFindings(@Req() request: Request): Promise<FindingsResponse> {
    const principal = getPrincipal(request, 'admin');
    return FindingsResponse.from(await this.findings.report((scope) => hasScope(principal, scope, 'GET')));
  }
}
