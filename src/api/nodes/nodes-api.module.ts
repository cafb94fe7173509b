import { Module } from '@nestjs/common';
import { NodesModule } from '../../domain/nodes/nodes.module.js';
import { NodesController } from './nodes.controller.js';

@Module({ imports: [NodesModule], controllers: [NodesController] })
export class NodesApiModule {}
