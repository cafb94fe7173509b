// One baseline a process: `node bench/baselines.js http|nest|guarded PORT`.
import 'reflect-metadata';
import { createServer } from 'node:http';
import { Controller, Module, Post, UseGuards } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { AuthGuard, PassportModule, PassportStrategy } from '@nestjs/passport';
import { HeaderAPIKeyStrategy } from 'passport-headerapikey';

const ANSWER = {
  valid: true,
  node_id: '01985f4e-7c3a-7b52-9d1e-2f6a8c4b0d11',
  household_id: '5b1c7a9e-0d35-4c8e-9a57-6f0b1f4f2a10',
};
const [, , kind, port] = process.argv;

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

async function startNest(controller, providers) {
  // eslint-disable-next-line @typescript-eslint/no-extraneous-class -- decorated by hand below
  class BenchModule {}
  Module({ imports: [PassportModule], controllers: [controller], providers })(BenchModule);
  const app = await NestFactory.create(BenchModule, { logger: false });
  await app.listen(Number(port), '127.0.0.1');
}

class KeyStrategy extends PassportStrategy(HeaderAPIKeyStrategy, 'key') {
  constructor() {
    super({ header: 'X-API-Key', prefix: '' }, false);
  }

  validate(key) {
    return { key };
  }
}

if (kind === 'http') {
  const body = JSON.stringify(ANSWER);
  const head = { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) };
  createServer((_request, response) => response.writeHead(200, head).end(body)).listen(Number(port), '127.0.0.1');
} else if (kind === 'nest') {
  await startNest(controllerOf([]), []);
} else {
  await startNest(controllerOf([UseGuards(AuthGuard('key'))]), [KeyStrategy]);
}
