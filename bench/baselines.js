// One baseline a process: `node bench/baselines.js http|pg|nest|stock PORT`.
import 'reflect-metadata';
import { createServer } from 'node:http';
import { Controller, Module, Post, UseGuards } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { AuthGuard, PassportModule, PassportStrategy } from '@nestjs/passport';
import { Logger, LoggerModule } from 'nestjs-pino';
import { HeaderAPIKeyStrategy } from 'passport-headerapikey';
import pg from 'pg';
import { POOL_SIZE, READ_NODE } from './shared.js';

const ANSWER = {
  valid: true,
  node_id: '01985f4e-7c3a-7b52-9d1e-2f6a8c4b0d11',
  household_id: '5b1c7a9e-0d35-4c8e-9a57-6f0b1f4f2a10',
};
const [, , kind, portText] = process.argv;
const port = Number(portText);

/** A controller with one route, decorated by hand: this file is run as it is. */
function controllerOf(guards) {
  class BenchController {
    answer() {
      return ANSWER;
    }
  }
  const descriptor = Object.getOwnPropertyDescriptor(BenchController.prototype, 'answer');
  for (const decorate of [Post(), ...guards]) decorate(BenchController.prototype, 'answer', descriptor);
  Controller()(BenchController);
  return BenchController;
}

async function startNest(controller, imports, providers, logger) {
  // eslint-disable-next-line @typescript-eslint/no-extraneous-class -- decorated by hand below
  class BenchModule {}
  Module({ imports, controllers: [controller], providers })(BenchModule);
  const app = await NestFactory.create(BenchModule, logger ? { bufferLogs: true } : { logger: false });
  if (logger) app.useLogger(app.get(logger));
  await app.listen(port, '127.0.0.1');
}

class KeyStrategy extends PassportStrategy(HeaderAPIKeyStrategy, 'key') {
  constructor() {
    super({ header: 'X-API-Key', prefix: '' }, false);
  }

  validate(key) {
    return { key };
  }
}

function write(response, answer) {
  const body = JSON.stringify(answer);
  const head = { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) };
  response.writeHead(200, head).end(body);
}

const servers = {
  http: () => createServer((_request, response) => write(response, ANSWER)).listen(port, '127.0.0.1'),
  /** The read of validate-node, and nothing else. */
  pg: () => {
    const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, max: POOL_SIZE });
    const server = createServer((request, response) => {
      const values = [request.headers['x-api-key']?.split(':')[0]];
      pool.query({ ...READ_NODE, values }).then(
        ({ rows: [row] }) => write(response, { valid: true, node_id: row?.id, household_id: row?.household_id }),
        (error) => response.writeHead(500).end(String(error)),
      );
    });
    server.listen(port, '127.0.0.1');
  },
  nest: () => startNest(controllerOf([]), [], []),
  /** As the documentation of each of them tells to put them together. */
  stock: () =>
    startNest(
      controllerOf([UseGuards(AuthGuard('key'))]),
      [PassportModule, LoggerModule.forRoot()],
      [KeyStrategy],
      Logger,
    ),
};
await servers[kind]();
