import { Module } from '@nestjs/common';
import { getRepositoryToken, TypeOrmModule } from '@nestjs/typeorm';
import type { Repository } from 'typeorm';
import { Clock } from '../common/clock.js';
import { KeyStore } from '../credentials/key-store.js';
import { Database } from '../database/database.js';
import { Log } from '../logging/log.js';
import { NodeDevice } from './node-device.entity.js';
import { NODE_KEYS, NodesService, type NodeIdentity } from './nodes.service.js';
import { NodeStrategy } from './node.strategy.js';
import { ValidateNodeController } from './validate-node.controller.js';

@Module({
  imports: [TypeOrmModule.forFeature([NodeDevice])],
  controllers: [ValidateNodeController],
  providers: [
    {
      provide: NODE_KEYS,
      inject: [getRepositoryToken(NodeDevice), Database, Clock, Log],
      useFactory: (repository: Repository<NodeDevice>, database: Database, clock: Clock, log: Log) =>
        new KeyStore<NodeDevice, NodeIdentity>(
          { name: 'nodes', identityColumns: ['household_id'], keyPrefix: 'pa_node_' },
          repository,
          database,
          clock,
          log,
        ),
    },
    NodesService,
    NodeStrategy,
  ],
  exports: [NodesService],
})
export class NodesModule {}
