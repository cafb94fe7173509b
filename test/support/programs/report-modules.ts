// Preloaded with --import: prints how many modules of OpenTelemetry were loaded. Its API package does not count,
// because prom-client depends on it and it does nothing by itself.
import { createRequire } from 'node:module';

process.on('exit', () => {
  const loaded = Object.keys(createRequire(import.meta.url).cache);
  const count = loaded.filter((path) => /@opentelemetry\/(?!api\/)/.test(path)).length;
  console.log(`opentelemetry modules: ${count}`);
});
