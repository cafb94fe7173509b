import { Controller, Get, Param, Query } from '@nestjs/common';
import { ApiOkResponse, ApiOperation, ApiParam, ApiTags } from '@nestjs/swagger';
import { RequireAdmin } from '../access/require.js';
import { AppCredentialsService } from '../app-credentials/app-credentials.service.js';
import { NodesService } from '../nodes/nodes.service.js';
import { ExplainAppQuery, ExplanationResponse } from './explanation.dto.js';

const DESCRIPTION =
  'The doors answer every refusal alike; this tells the operator why. An unknown id gets the reason `unknown`, not a 404.';

/** The private reasons behind the uniform 401 of the doors. */
@ApiTags('admin')
@Controller('api/v0/admin')
export class ExplanationsAdminController {
  constructor(
    private readonly nodes: NodesService,
    private readonly credentials: AppCredentialsService,
  ) {}

  @Get('nodes/:node_id/explain')
  @RequireAdmin('nodes')
  @ApiParam({ name: 'node_id', format: 'uuid' })
  @ApiOperation({ summary: 'Why would this node be refused now?', description: DESCRIPTION })
  @ApiOkResponse({ type: ExplanationResponse })
  async explainNode(@Param('node_id') id: string): Promise<ExplanationResponse> {
    return ExplanationResponse.from(await this.nodes.explain(id));
  }

  @Get('app-credentials/:app_id/explain')
  @RequireAdmin('apps')
  @ApiParam({ name: 'app_id', format: 'uuid' })
  @ApiOperation({
    summary: 'Why would this app credential be refused now?',
    description: `Name the service that refused it as target. ${DESCRIPTION}`,
  })
  @ApiOkResponse({ type: ExplanationResponse })
  async explainAppCredential(
    @Param('app_id') id: string,
    @Query() { target }: ExplainAppQuery,
  ): Promise<ExplanationResponse> {
    return ExplanationResponse.from(await this.credentials.explain(id, target));
  }
}
