import { createRequire } from 'node:module';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Attributes } from '@opentelemetry/api';
import { HttpInstrumentation, type HttpCustomAttributeFunction } from '@opentelemetry/instrumentation-http';
import { PgInstrumentation } from '@opentelemetry/instrumentation-pg';
import { NodeSDK, resources } from '@opentelemetry/sdk-node';

/** Whatever a caller may write into a request and the instrumentation would copy: a path may hold anything. */
const WRITTEN_BY_CALLERS = [
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
/** Asked every few seconds, and of no interest. */
const UNTRACED = /^\/(metrics|health|health\/live)$/;

/** Delivers what is left, for at most so long. */
export type StopTracing = (mostMs: number) => Promise<void>;

/**
 * Starts OpenTelemetry traces of requests and of the statements that they run, configured by the standard `OTEL_*`
 * variables. It must be called before anything else is loaded. A collector that does not answer disturbs nothing.
 */
export function startTracing(): StopTracing {
  const sdk = new NodeSDK({
    resource: resources.resourceFromAttributes({ 'service.name': 'platform-auth' }),
    // Not the process's command line: it is nobody's business.
    resourceDetectors: [resources.envDetector, resources.hostDetector],
    instrumentations: [http(), pg()],
    metricReaders: [],
    logRecordProcessors: [],
  });
  sdk.start();
  // Only `require` is watched. What is patched is shared with whoever imports these, so no loader hook is needed.
  const require = createRequire(import.meta.url);
  require('node:http');
  require('pg');
  return async (mostMs) => {
    const shutdown = sdk.shutdown().catch(() => undefined);
    await Promise.race([shutdown, sleep(mostMs)]);
  };
}

function http(): HttpInstrumentation {
  const nothing: Attributes = Object.fromEntries(WRITTEN_BY_CALLERS.map((name) => [name, undefined]));
  return new HttpInstrumentation({
    disableOutgoingRequestInstrumentation: true,
    ignoreIncomingRequestHook: ({ url = '' }) => UNTRACED.test(url),
    startIncomingSpanHook: () => nothing,
    applyCustomAttributesOnSpan: nameByRoute,
  });
}

/** Express has found the route by the time of the answer. Its pattern is the name, never the path. */
const nameByRoute: HttpCustomAttributeFunction = (span, request) => {
  const path = (request as { route?: { path?: unknown } }).route?.path;
  if (typeof path !== 'string') return;
  span.setAttribute('http.route', path);
  span.updateName(`${request.method ?? ''} ${path}`);
};

/** Statements without their parameters. */
function pg(): PgInstrumentation {
  return new PgInstrumentation({ requireParentSpan: true, ignoreConnectSpans: true, enhancedDatabaseReporting: false });
}
