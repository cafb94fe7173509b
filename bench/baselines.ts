// Runs one baseline in this process: `baselines.js http|pg|nest|stock`, listening on PORT of loopback.
import 'reflect-metadata';
import { createServer, type ServerResponse } from 'node:http';
import { Controller, Module, Post, UseGuards, type Type } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { AuthGuard, PassportModule, PassportStrategy } from '@nestjs/passport';
import { Logger, LoggerModule } from 'nestjs-pino';
import { HeaderAPIKeyStrategy } from 'passport-headerapikey';
import pg from 'pg';
import { POOL_SIZE, READ_NODE } from './statements.js';

const ANSWER = {
  valid: true,
  node_id: '01985f4e-7c3a-7b52-9d1e-2f6a8c4b0d11',
  household_id: '5b1c7a9e-0d35-4c8e-9a57-6f0b1f4f2a10',
};
const port = Number(process.env.PORT);

@Controller()
class PlainController {
  @Post()
  answer() {
    return ANSWER;
  }
}

@Module({ controllers: [PlainController] })
class PlainModule {}

class KeyStrategy extends PassportStrategy(HeaderAPIKeyStrategy, 'key') {
  constructor() {
    super({ header: 'X-API-Key', prefix: '' }, false);
  }

  validate(key: string) {
    return { key };
  }
}

@Controller()
class StockController {
  @Post()
  @UseGuards(AuthGuard('key'))
  answer() {
    return ANSWER;
  }
}

/** Built as the documentation of each package describes. */
@Module({ imports: [PassportModule, LoggerModule.forRoot()], controllers: [StockController], providers: [KeyStrategy] })
class StockModule {}

async function startNest(module: Type, isLogged: boolean): Promise<void> {
  const app = await NestFactory.create(module, isLogged ? { bufferLogs: true } : { logger: false });
  if (isLogged) app.useLogger(app.get(Logger));
  await app.listen(port, '127.0.0.1');
}

function write(response: ServerResponse, answer: object): void {
  const body = JSON.stringify(answer);
  const head = { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) };
  response.writeHead(200, head).end(body);
}

/** Does the read of validate-node, and nothing else. */
function startPg(): void {
  const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, max: POOL_SIZE });
  const server = createServer((request, response) => {
    const [id] = String(request.headers['x-api-key']).split(':');
    pool.query<{ id: string; household_id: string }>({ ...READ_NODE, values: [id] }).then(
      ({ rows: [row] }) => write(response, { valid: true, node_id: row?.id, household_id: row?.household_id }),
      (error: unknown) => response.writeHead(500).end(String(error)),
    );
  });
  server.listen(port, '127.0.0.1');
}

const servers: Readonly<Record<string, () => unknown>> = {
  http: () => createServer((_request, response) => write(response, ANSWER)).listen(port, '127.0.0.1'),
  pg: startPg,
  nest: () => startNest(PlainModule, false),
  stock: () => startNest(StockModule, true),
};
const start = servers[process.argv[2] ?? ''];
if (!start) throw new Error(`Usage: baselines.js ${Object.keys(servers).join('|')}`);
await start();
