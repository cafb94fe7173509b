import {
  ConnectionError,
  TimeoutError,
  type ServiceAnswer,
  type ServiceRequest,
  type Transport,
} from '../src/transport.js';
import { answers, NOTHING_HAPPENS, type Answer, type Path, type Scenario } from './scenarios.js';
import type { Simulation } from './simulation.js';

const CONNECT_TIMEOUT_MS = 500;
const DEFAULTS: Required<NonNullable<Scenario['service']>> = {
  changes: ['reset', 'quiet'],
  'validate-app': ['app_yes'],
  'validate-node': ['node_yes'],
  'validate-user': ['alice_yes'],
  jwks: ['jwks'],
  token: ['ocr_token'],
  events: [NOTHING_HAPPENS],
};
const ROUTES: Readonly<Record<string, Path>> = {
  'POST http://auth.test/internal/changes': 'changes',
  'POST http://auth.test/internal/validate-app': 'validate-app',
  'POST http://auth.test/internal/validate-node': 'validate-node',
  'POST http://auth.test/internal/validate-user': 'validate-user',
  'GET http://auth.test/.well-known/jwks.json': 'jwks',
  'POST http://auth.test/internal/token': 'token',
  'POST http://auth.test/internal/events': 'events',
};

/** Answers as a scenario says. */
export class FakeService implements Transport {
  readonly requests: { readonly path: Path; readonly request: ServiceRequest; readonly atMs: number }[] = [];
  readonly unexpected: string[] = [];
  private readonly lists: Record<Path, (string | Answer)[]>;

  constructor(
    private readonly simulation: Simulation,
    service: Scenario['service'],
  ) {
    this.lists = structuredClone({ ...DEFAULTS, ...service }) as Record<Path, (string | Answer)[]>;
  }

  replace(service: NonNullable<Scenario['service']>): void {
    Object.assign(this.lists, structuredClone(service));
  }

  sent(path: Path): ServiceRequest[] {
    return this.requests.filter((sent) => sent.path === path).map(({ request }) => request);
  }

  close(): void {
    // Answers come from memory: no connection is open.
  }

  send(request: ServiceRequest): Promise<ServiceAnswer> {
    const path = ROUTES[`${request.method} ${request.url}`];
    if (!path) {
      this.unexpected.push(`${request.method} ${request.url}`);
      return Promise.reject(new ConnectionError('no such route'));
    }
    this.requests.push({ path, request, atMs: this.simulation.nowMs });
    const list = this.lists[path];
    const answer = resolve((list.length > 1 ? list.shift() : list[0])!);
    return new Promise((settle, fail) => {
      const { fail: failure, after_ms: afterMs = 1 } = answer;
      if (failure === 'silence') return;
      const delayMs = failure === 'connect_timeout' ? CONNECT_TIMEOUT_MS : afterMs;
      this.simulation.at(this.simulation.nowMs + delayMs, () => {
        if (failure === 'connect_timeout') fail(new TimeoutError('no connection'));
        else if (failure) fail(new ConnectionError(failure));
        else settle(toServiceAnswer(answer));
      });
    });
  }
}

function resolve(answer: string | Answer): Answer {
  if (typeof answer === 'string') {
    const named = answers[answer];
    if (!named) throw new Error(`answers.json lacks the answer ${answer}`);
    return resolve(named);
  }
  if (answer.like === undefined) return answer;
  const { like, body, replace_body: replacement, headers, ...changes } = answer;
  const base = resolve(like);
  const changedBody = body === undefined ? base.body : { ...(base.body as object), ...(body as object) };
  return { ...base, ...changes, headers: { ...base.headers, ...headers }, body: replacement ?? changedBody };
}

function toServiceAnswer({ status = 200, headers = {}, body, text }: Answer): ServiceAnswer {
  const sent = Object.entries(headers).filter(([, value]) => value !== null);
  return {
    status,
    headers: {
      'content-type': 'application/json',
      ...Object.fromEntries(sent.map(([name, value]) => [name.toLowerCase(), value ?? ''])),
    },
    body: text ?? JSON.stringify(body),
  };
}
