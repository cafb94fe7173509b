import type { RequestListener } from 'node:http';
import { isTracingRequested, type Variables } from '../../../src/foundation/config/environment.js';
import { eventually } from '../../../tools/eventually.js';
import { claimPort } from '../../../tools/claim-port.js';
import { serve } from '../../support/serve.js';
import { ServiceProcess } from '../../support/service-process.js';
import { ADMIN_KEY, PASSWORD, VARIABLES, withSettings } from '../../support/settings.js';
import { useTestDatabase } from '../../support/test-database.js';
import { fromRoot } from '../../support/from-root.js';

const REPORT = fromRoot('dist/test/support/programs/report-modules.js');

interface OtlpSpan {
  readonly name: string;
  readonly parentSpanId?: string;
  readonly spanId: string;
  readonly attributes: { key: string; value: object }[];
}
interface OtlpExport {
  readonly resourceSpans: { scopeSpans: { spans: OtlpSpan[] }[] }[];
}

describe('tracing', () => {
  const database = useTestDatabase();
  let collector: Awaited<ReturnType<typeof serve>>;
  /** What the collector received over HTTP. */
  const received = { paths: new Set<string>(), bodies: [] as string[] };
  const collect: RequestListener = (request, response) => {
    let body = '';
    request.setEncoding('latin1').on('data', (text: string) => (body += text));
    request.on('end', () => {
      received.paths.add(request.url ?? '');
      received.bodies.push(body);
      response.writeHead(200, { 'Content-Type': 'application/json' }).end('{}');
    });
  };
  /** Spans that came as JSON. */
  const readSpans = (): OtlpSpan[] => {
    const exports = received.bodies.map((body) => JSON.parse(body) as OtlpExport);
    return exports.flatMap(({ resourceSpans }) =>
      resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap(({ spans }) => spans)),
    );
  };

  beforeAll(async () => {
    collector = await serve(collect);
  });
  beforeEach(() => {
    received.bodies.length = 0;
    received.paths.clear();
  });
  afterAll(() => collector.close());

  // Without a lease, because each poll would be a span.
  const unleased = { ...VARIABLES, REVOCATION_LEASE_MS: '0', OTEL_BSP_SCHEDULE_DELAY: '50' };
  const start = (more: Variables): Promise<ServiceProcess> =>
    ServiceProcess.start({ ...unleased, DATABASE_URL: database.url, ...more });

  it('exports the spans of a request and its statements, without anything that a caller sent', async () => {
    const service = await start({
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
      OTEL_SEMCONV_STABILITY_OPT_IN: 'http/dup,database/dup',
      NODE_OPTIONS: `--import=${REPORT}`,
    });
    const canaries = await callWithCanaries(service);
    const route = '/internal/validate-node';
    await eventually('the span arrives', () => readSpans().some(({ name }) => name === `POST ${route}`));
    const request = readSpans().find(({ name }) => name === `POST ${route}`)!;
    expect(request.attributes).toContainEqual({ key: 'http.route', value: { stringValue: route } });
    const statements = readSpans().filter(({ parentSpanId }) => parentSpanId === request.spanId);
    expect(statements.map(({ name }) => name)).toEqual([expect.stringMatching(/^pg\.query/)]);
    expect(JSON.stringify(statements)).toContain('WHERE id = ANY ((SELECT $1::uuid[])::uuid[])');

    expect(await service.stop()).toBe(0);
    expect(new Set(received.paths)).toEqual(new Set(['/v1/traces']));
    const everything = received.bodies.join('\n');
    expect(everything).toContain('/api/v0/auth/login');
    expect(canaries.filter((canary) => everything.includes(canary))).toEqual([]);
    expect(everything).not.toMatch(/canary/i);
    expect(readSpans().map(({ name }) => name)).not.toContainEqual(expect.stringContaining('health'));
    expect(countModules(service)).toBeGreaterThan(100);
  });

  it('exports protobuf by default, and flushes when it stops', async () => {
    const service = await start({ OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, OTEL_BSP_SCHEDULE_DELAY: '600000' });
    const canaries = await callWithCanaries(service);
    expect(received.bodies).toEqual([]);
    expect(await service.stop()).toBe(0);
    const everything = received.bodies.join('\n');
    expect(everything).toContain('/internal/validate-node');
    expect(everything).toContain('platform-auth');
    expect([...canaries, 'canary'].filter((canary) => everything.includes(canary))).toEqual([]);
  });

  it('does not disturb the service when the collector is down', async () => {
    const service = await start({ OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${await claimPort()}` });
    await callWithCanaries(service);
    expect(await service.stop()).toBe(0);
    expect(service.output).not.toMatch(/error|ECONNREFUSED|otlp/i);
  });

  it('does not delay the shutdown beyond its deadline when the collector hangs', async () => {
    const hanging = await serve(() => undefined);
    const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: hanging.url };
    const service = await start({ ...endpoint, ...withSettings({ shutdownDeadlineMs: 20_000 }) });
    await callWithCanaries(service);
    expect(await service.stop()).toBe(0);
    hanging.close();
  });

  it.each([
    ['nothing asks for it', {}],
    ['the SDK is disabled', { OTEL_SDK_DISABLED: 'true', OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:9' }],
  ])('loads no module of OpenTelemetry when %s', async (_when, variables) => {
    const service = await start({ ...variables, NODE_OPTIONS: `--import=${REPORT}` });
    await service.stop();
    expect(countModules(service)).toBe(0);
  });

  it.each([
    [{}, false],
    [{ OTEL_SERVICE_NAME: 'auth' }, false],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: '' }, false],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318' }, true],
    [{ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'http://collector:4318/v1/traces' }, true],
    [{ OTEL_TRACES_EXPORTER: 'otlp' }, true],
    [{ OTEL_TRACES_EXPORTER: 'none', OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318' }, false],
    [{ OTEL_SDK_DISABLED: 'TRUE', OTEL_TRACES_EXPORTER: 'otlp' }, false],
  ])('is configured by %j as %j', (variables, wanted) => {
    expect(isTracingRequested(variables)).toBe(wanted);
  });
});

/** @returns how many modules of OpenTelemetry a process loaded that was started with {@link REPORT} */
function countModules({ output }: ServiceProcess): number {
  return Number(/^opentelemetry modules: (\d+)$/m.exec(output)?.[1]);
}

/** Sends requests with canaries in every place. @returns the secrets of these requests */
async function callWithCanaries({ url }: ServiceProcess): Promise<string[]> {
  const headers = {
    'Content-Type': 'application/json',
    'X-Admin-Key': ADMIN_KEY,
    'User-Agent': 'canary-agent',
    'X-Forwarded-For': 'canary-address',
    'X-Request-Id': 'canary-id',
    Forwarded: 'host=canary-host',
  };
  const post = async (
    path: string,
    body: unknown,
    more: Record<string, string> = {},
  ): Promise<Record<string, string>> => {
    const text = typeof body === 'string' ? body : JSON.stringify(body);
    const answer = await fetch(url + path, { method: 'POST', headers: { ...headers, ...more }, body: text });
    return (await answer.json()) as Record<string, string>;
  };
  const home = { household_id: '5b1c7a9e-0d35-4c8e-9a57-6f0b1f4f2a10', room: 'canary room', name: 'canary name' };
  const node = await post('/api/v0/admin/nodes', home);
  await post('/internal/validate-node', {}, { 'X-API-Key': `${node.node_id}:${node.api_key}` });
  const person = { email: `canary-${Math.random()}@example.org`, password: PASSWORD };
  await post('/api/v0/auth/register', person);
  await post('/api/v0/auth/register', person);
  const tokens = await post('/api/v0/auth/login', person);
  await post('/auth/refresh', { refresh_token: tokens.refresh_token });
  await post('/api/v0/auth/login', '{"canary": canary');
  await fetch(`${url}/canary-path?canary-query=1`, { headers });
  await fetch(`${url}/api/v0/users/canary-id?canary=1`, { headers });
  const secrets = [node.api_key!, tokens.refresh_token!, tokens.access_token!, person.email, PASSWORD, ADMIN_KEY];
  expect(secrets.filter((secret) => secret.length < 20)).toEqual([]);
  return secrets;
}
