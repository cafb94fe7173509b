// Preloaded with --import: prints how many modules of OpenTelemetry were loaded. Its API package is a dependency of
// prom-client and does nothing by itself: it is not counted.
import { createRequire } from 'node:module';

process.on('exit', () => {
  const loaded = Object.keys(createRequire(import.meta.url).cache);
  const count = loaded.filter((path) => /@opentelemetry\/(?!api\/)/.test(path)).length;
  console.log(`opentelemetry modules: ${count}`);
});
