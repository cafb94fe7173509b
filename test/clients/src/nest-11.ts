import 'reflect-metadata';
import { Controller, Get, Module, type DynamicModule, type LoggerService } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import type { AddressInfo } from 'node:net';

/** What the program uses of the verifier, which `run.ts` bundles beside it, so that it imports this folder's NestJS. */
interface VerifierPackage {
  readonly Verifier: {
    forTests(): { issueNode(): { headers: Record<string, string> }; setAvailable(is: boolean): void };
  };
  readonly PlatformAuthModule: { forRoot(verifier: unknown): DynamicModule };
  readonly RequireNode: () => MethodDecorator;
}

/** Refusals of a service with NestJS 11 on Express, and what it logs about them. */
export async function runRefusals({ Verifier, PlatformAuthModule, RequireNode }: VerifierPackage): Promise<void> {
  class NodesController {
    get(): object {
      return { isAccepted: true };
    }
  }
  const route = Object.getOwnPropertyDescriptor(NodesController.prototype, 'get') ?? {};
  Controller()(NodesController);
  for (const decorate of [Get('node'), RequireNode()]) decorate(NodesController.prototype, 'get', route);

  class AppModule {}
  const auth = Verifier.forTests();
  Module({ imports: [PlatformAuthModule.forRoot(auth)], controllers: [NodesController] })(AppModule);
  const logged: string[] = [];
  const note = (message: unknown): void => void logged.push(String(message));
  const logger: LoggerService = { log: () => undefined, warn: note, error: note, fatal: note };
  const app = await NestFactory.create(AppModule, { logger });
  await app.listen(0, '127.0.0.1');
  const { port } = app.getHttpServer().address() as AddressInfo;
  const ask = (headers: Record<string, string>) => fetch(`http://127.0.0.1:${port}/node`, { headers });
  try {
    const { headers } = auth.issueNode();
    if ((await ask(headers)).status !== 200) throw new Error('A good node was not accepted');
    await expectProblem(await ask({}), 401, 'invalid_node_credentials');
    auth.setAvailable(false);
    await expectProblem(await ask(headers), 503, 'unavailable');
    if (logged.length > 0) throw new Error(`It logged: ${logged.join()}`);
  } finally {
    await app.close();
  }
}

async function expectProblem(answer: Response, status: number, code: string): Promise<void> {
  const type = answer.headers.get('content-type') ?? '';
  const body = (await answer.json()) as { code: string };
  if (answer.status !== status || body.code !== code || !type.startsWith('application/problem+json'))
    throw new Error(`${answer.status} ${type} ${body.code}`);
}
