import { createRequire } from 'node:module';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Attributes } from '@opentelemetry/api';
import { HttpInstrumentation, type HttpCustomAttributeFunction } from '@opentelemetry/instrumentation-http';
import { PgInstrumentation } from '@opentelemetry/instrumentation-pg';
import { NodeSDK, resources } from '@opentelemetry/sdk-node';

/** Dropped from spans, because a caller may have written a secret into the request that they are copied from. */
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
/** Monitoring polls these paths every few seconds, and their traces tell nothing. */
const UNTRACED = /^\/(metrics|health|health\/(live|ready))$/;

/** Delivers the remaining spans, or gives up after the timeout. */
export type StopTracing = (timeoutMs: number) => Promise<void>;

/**
 * Starts OpenTelemetry traces of requests and their statements, configured by the standard `OTEL_*` variables. Call it
 * before anything else is loaded, because it patches modules while they load.
 */
export function startTracing(): StopTracing {
  const sdk = new NodeSDK({
    resource: resources.resourceFromAttributes({ 'service.name': 'platform-auth' }),
    // The process detector is left out, because the command line may be confidential.
    resourceDetectors: [resources.envDetector, resources.hostDetector],
    instrumentations: [
      createHttpInstrumentation(),
      // Without the parameters of statements.
      new PgInstrumentation({ requireParentSpan: true, ignoreConnectSpans: true, enhancedDatabaseReporting: false }),
    ],
    metricReaders: [],
    logRecordProcessors: [],
  });
  sdk.start();
  // A hook of `require` is enough: it patches the objects that `import` returns too, so no loader hook is needed.
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

/** Names the span by the route's pattern, because the path may hold an id. Express knows the route once it responds. */
const nameByRoute: HttpCustomAttributeFunction = (span, request) => {
  const path = (request as { route?: { path?: unknown } }).route?.path;
  if (typeof path !== 'string') return;
  span.setAttribute('http.route', path);
  span.updateName(`${request.method ?? ''} ${path}`);
};
