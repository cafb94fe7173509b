import { randomUUID } from 'node:crypto';
import type { Test as SupertestRequest } from 'supertest';
import type { Service, TestApp } from '../../support/test-app.js';
import { seal } from '../audit/auditor.js';

export interface Told {
  readonly id: string;
  readonly type: string;
  readonly subject: { readonly kind: string; readonly id: string };
  readonly data: Record<string, unknown>;
  readonly cursor: string;
}

interface Answer {
  readonly events: Told[];
  readonly more: boolean;
  readonly reset: boolean;
  readonly cursor?: string;
}

/** Seals what was committed, and copies the events of the seals. */
export async function tell(app: TestApp): Promise<void> {
  await seal(app);
}

/** One consumer of a service that subscribes to events. */
export class Subscriber {
  constructor(
    readonly app: TestApp,
    readonly service: Service,
    readonly consumer: string = randomUUID(),
  ) {}

  static async to(app: TestApp, types: readonly string[], from?: 'beginning'): Promise<Subscriber> {
    const subscriber = new Subscriber(app, await app.service(undefined, 'auth'));
    await subscriber.subscribe(types, from);
    return subscriber;
  }

  get name(): string {
    return this.service.caller;
  }

  get path(): string {
    return `/event-subscriptions/${this.name}`;
  }

  /** @returns another process of the service */
  another(): Subscriber {
    return new Subscriber(this.app, this.service);
  }

  async subscribe(types: readonly string[], from?: 'beginning'): Promise<void> {
    await this.app.admin.put(this.path, { types, from }).expect(200);
  }

  poll(body: object = {}, app = this.app): SupertestRequest {
    return app.post('/internal/events', { consumer: this.consumer, ...body }).set(this.service.headers);
  }

  async read(body: object = {}): Promise<Answer> {
    return (await this.poll(body).expect(200)).body as Answer;
  }
}
