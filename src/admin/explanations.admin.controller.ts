import { Controller, Get, Param, Query } from '@nestjs/common';
import { ApiOkResponse, ApiOperation, ApiParam, ApiTags } from '@nestjs/swagger';
import { RequireAdmin } from '../access/require.js';
import { AppCredentialsService } from '../app-credentials/app-credentials.service.js';
import { NodesService } from '../nodes/nodes.service.js';
import { LoginExplanations } from '../second-factors/login-explanations.js';
import { ExplainAppQuery, ExplanationResponse } from './explanation.dto.js';
import { ExplainUserQuery, UserExplanationResponse } from './user-explanation.dto.js';

const DESCRIPTION =
  'The doors answer every refusal alike; this tells the operator why. An unknown id gets the reason `unknown`, not a 404.';

/** The private reasons behind the uniform 401 of the doors, and of the login. */
@ApiTags('admin')
@Controller('api/v0/admin')
export class ExplanationsAdminController {
  constructor(
    private readonly nodes: NodesService,
    private readonly credentials: AppCredentialsService,
    private readonly logins: LoginExplanations,
  ) {}

  @Get('users/:id/explain')
  @RequireAdmin('users')
  @ApiParam({ name: 'id', format: 'uuid' })
  @ApiOperation({
    summary: 'Why would a login of this user be refused now?',
    description:
      'With the right password. Name the address of the client to include the throttles of its network. Counts nothing. An unknown id gets the reason `unknown`, not a 404.',
  })
  @ApiOkResponse({ type: UserExplanationResponse })
  async explainUser(@Param('id') id: string, @Query() { address }: ExplainUserQuery): Promise<UserExplanationResponse> {
    return UserExplanationResponse.from(await this.logins.explain(id, address ?? null));
  }

  @Get('nodes/:node_id/explain')
  @RequireAdmin('nodes')
  @ApiParam({ name: 'node_id', format: 'uuid' })
  @ApiOperation({ summary: 'Why would this node be refused now?', description: DESCRIPTION })
  @ApiOkResponse({ type: ExplanationResponse })
  async explainNode(@Param('node_id') id: string): Promise<ExplanationResponse> {
    return ExplanationResponse.from(await this.nodes.explainNode(id));
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
    return ExplanationResponse.from(await this.credentials.explainAppCredential(id, target));
  }
}
