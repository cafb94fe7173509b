import { createRequire } from 'node:module';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Attributes } from '@opentelemetry/api';
import { HttpInstrumentation, type HttpCustomAttributeFunction } from '@opentelemetry/instrumentation-http';
import { PgInstrumentation } from '@opentelemetry/instrumentation-pg';
import { NodeSDK, resources } from '@opentelemetry/sdk-node';

/** The instrumentation copies them from requests, where a caller may have written a secret: they are dropped. */
const CALLER_ATTRIBUTES = [
  'client.address',
  'http.client_ip',
  'http.host',
  'http.request.method_original',
  'http.target',
  'http.url',
  'http.user_agent',
  'net.host.name',
  'server.address',
  'server.port',
  'url.path',
  'url.query',
  'user_agent.original',
];
/** Polled every few seconds, and not worth a trace. */
const UNTRACED = /^\/(metrics|health|health\/(live|ready))$/;

/** Delivers the remaining spans until the timeout. */
export type StopTracing = (timeoutMs: number) => Promise<void>;

/**
 * Starts OpenTelemetry traces of requests and of the statements that they run, configured by the standard `OTEL_*`
 * variables. It must be called before anything else is loaded. An unavailable collector does not affect requests.
 */
export function startTracing(): StopTracing {
  const sdk = new NodeSDK({
    resource: resources.resourceFromAttributes({ 'service.name': 'platform-auth' }),
    // Without the process detector: the command line may be confidential.
    resourceDetectors: [resources.envDetector, resources.hostDetector],
    instrumentations: [createHttpInstrumentation(), createPgInstrumentation()],
    metricReaders: [],
    logRecordProcessors: [],
  });
  sdk.start();
  // Only `require` is hooked. It patches the objects that `import` returns too, so that no loader hook is needed.
  const require = createRequire(import.meta.url);
  require('node:http');
  require('pg');
  return async (timeoutMs) => {
    const shutdown = sdk.shutdown().catch(() => undefined);
    await Promise.race([shutdown, sleep(timeoutMs)]);
  };
}

function createHttpInstrumentation(): HttpInstrumentation {
  const dropped: Attributes = Object.fromEntries(CALLER_ATTRIBUTES.map((name) => [name, undefined]));
  return new HttpInstrumentation({
    disableOutgoingRequestInstrumentation: true,
    ignoreIncomingRequestHook: ({ url = '' }) => UNTRACED.test(url),
    startIncomingSpanHook: () => dropped,
    applyCustomAttributesOnSpan: nameByRoute,
  });
}

/** Names the span by the route's pattern, never by the path. Express knows the route when it responds. */
const nameByRoute: HttpCustomAttributeFunction = (span, request) => {
  const path = (request as { route?: { path?: unknown } }).route?.path;
  if (typeof path !== 'string') return;
  span.setAttribute('http.route', path);
  span.updateName(`${request.method ?? ''} ${path}`);
};

/** Records statements without their parameters. */
function createPgInstrumentation(): PgInstrumentation {
  return new PgInstrumentation({ requireParentSpan: true, ignoreConnectSpans: true, enhancedDatabaseReporting: false });
}
