import { once } from 'node:events';
import { createServer } from 'node:http';
import { defer } from '../cleanup.js';

const MISBEHAVIOURS = {
  hang: () => undefined,
  fail: (_request, response) => response.writeHead(500).end(),
  redirect: (_request, response) => response.writeHead(307, { Location: '/elsewhere' }).end(),
  'hang up': (request) => request.socket.destroy(),
};

/** Callers are not affected. */
export default {
  name: 'logging-service',
  title: 'the logging service hangs, then answers 500, redirects, hangs up',
  bounds: { errors: [], silenceMs: 2_000, slowestMs: 2_000 },
  async prepare(stage) {
    stage.misbehave = (_request, response) => response.writeHead(204).end();
    stage.paths = new Set();
    const server = createServer((request, response) => {
      stage.paths.add(request.url);
      request.resume();
      stage.misbehave(request, response);
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    defer(() => {
      server.close();
      server.closeAllConnections();
    });
    await stage.world.startReplicas({ LOGGING_SERVICE_URL: `http://127.0.0.1:${server.address().port}/logs` });
  },
  async run(stage) {
    const { quiet, expect, paths } = stage;
    const { replicas } = stage.world;
    await quiet();
    expect(paths.has('/logs'), 'no log line was delivered before the fault');
    for (const misbehave of Object.values(MISBEHAVIOURS)) {
      stage.misbehave = misbehave;
      await quiet();
    }
    expect(paths.size === 1, `a redirect was followed: ${[...paths].join(', ')}`);
    for (const [index, { output }] of replicas.entries()) {
      const warnings = output.split('logging_service_unusable').length - 1;
      expect(warnings === 1, `replica ${index + 1} warned ${warnings} times for one outage`);
    }
  },
};
