import { Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { provideKeyStore } from '../keys/key-store.js';
import { EnrolmentsService } from './enrolments.service.js';
import { NodeEnrolment } from './node-enrolment.entity.js';
import { Node } from './node.entity.js';
import { NODE_KEYS, NODE_KEY_KIND, NodesService } from './nodes.service.js';
import { NodeDoor } from './node.door.js';
import { NodeStrategy } from './node.strategy.js';

@Module({
  imports: [TypeOrmModule.forFeature([Node, NodeEnrolment])],
  providers: [provideKeyStore(NODE_KEYS, Node, NODE_KEY_KIND), NodesService, EnrolmentsService, NodeDoor, NodeStrategy],
  exports: [NodesService, EnrolmentsService],
})
export class NodesModule {}
