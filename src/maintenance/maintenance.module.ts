import { Module } from '@nestjs/common';
import { AppCredentialsModule } from '../app-credentials/app-credentials.module.js';
import { NodesModule } from '../nodes/nodes.module.js';
import { ThrottlingModule } from '../throttling/throttling.module.js';
import { TokensModule } from '../tokens/tokens.module.js';
import { PurgeJob } from './purge.job.js';

@Module({
  imports: [TokensModule, NodesModule, AppCredentialsModule, ThrottlingModule],
  providers: [PurgeJob],
  exports: [PurgeJob],
})
export class MaintenanceModule {}
