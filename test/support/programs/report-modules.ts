// Preloaded into a service: at its end it prints how many CommonJS modules of OpenTelemetry it has loaded.
import { createRequire } from 'node:module';

const { cache } = createRequire(import.meta.url);
process.on('exit', () => {
  const loaded = Object.keys(cache).filter((path) => path.includes('@opentelemetry'));
  process.stdout.write(`\nopentelemetry modules: ${loaded.length}\n`);
});
