import { Controller, Get, Query } from '@nestjs/common';
import { ApiOkResponse, ApiOperation, ApiTags } from '@nestjs/swagger';
import { RequireAdmin } from '../access/require.js';
import { AuditLog } from '../audit/audit-log.js';
import { getPageLimit } from '../http/page.js';
import { parseMoment } from '../common/fields.js';
import { OperatorsService } from '../operators/operators.service.js';
import { AuditEventPageResponse, AuditEventsQuery, readOperatorName } from './audit-event.dto.js';

@ApiTags('admin')
@Controller('api/v0/admin/audit-events')
export class AuditEventsAdminController {
  constructor(
    private readonly audit: AuditLog,
    private readonly operators: OperatorsService,
  ) {}

  @Get()
  @RequireAdmin('read')
  @ApiOperation({
    summary: 'List audit events',
    description: 'Newest first. Failed logins are one item for each account and window of 15 minutes, with a count.',
  })
  @ApiOkResponse({ type: AuditEventPageResponse })
  async listAuditEvents(@Query() query: AuditEventsQuery): Promise<AuditEventPageResponse> {
    const operator = readOperatorName(query.actor);
    const filter = {
      actor: operator === undefined ? query.actor?.toLowerCase() : undefined,
      operators: operator === undefined ? undefined : await this.operators.listOperatorIds(operator),
      subject: query.subject?.toLowerCase(),
      event: query.event,
      since: parseMoment(query.since),
      until: parseMoment(query.until),
    };
    return AuditEventPageResponse.from(await this.audit.list(filter, getPageLimit(query), query.cursor));
  }
}
