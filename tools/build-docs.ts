// Makes the OpenAPI document and the pages in dist/docs/, and gathers the files of the console in dist/console/. Nest's
// preview mode reads the controllers without connecting to anything.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { NestFactory } from '@nestjs/core';
import { AppModule } from '../src/app.module.js';
import { findPackageFile } from '../src/foundation/common/package-version.js';
import { parseEnvironment } from '../src/foundation/config/environment.js';
import { LinkedExpressAdapter } from '../src/foundation/http/linked-express.adapter.js';
import { createOpenApiDocument } from './openapi-document.js';
import { makeSecrets, productionVariables } from './service.js';

const SWAGGER_UI = [
  ...['swagger-ui.css', 'index.css', 'swagger-ui-bundle.js'],
  ...['favicon-16x16.png', 'favicon-32x32.png'],
];
const OWN = ['page.css', 'swagger-ui-init.js'];
const require = createRequire(import.meta.url);
const FOLDER = findPackageFile('dist/docs/');
const CONSOLE = findPackageFile('dist/console/');

/** Leaves an unchanged file alone, so that a running service never reads half of one. */
function writeIfChanged(name: string, content: Buffer, folder = FOLDER): void {
  const file = new URL(name, folder);
  if (!existsSync(file) || !readFileSync(file).equals(content)) writeFileSync(file, content);
}

mkdirSync(FOLDER, { recursive: true });
for (const name of SWAGGER_UI) writeIfChanged(name, readFileSync(require.resolve(`swagger-ui-dist/${name}`)));
for (const name of OWN) writeIfChanged(name, readFileSync(findPackageFile(`src/bootstrap/docs/static/${name}`)));
mkdirSync(CONSOLE, { recursive: true });
writeIfChanged('pico.min.css', readFileSync(require.resolve('@picocss/pico/css/pico.min.css')), CONSOLE);
for (const name of ['console.css', 'console.js'])
  writeIfChanged(name, readFileSync(findPackageFile(`src/console/static/${name}`)), CONSOLE);
const environment = parseEnvironment(productionVariables('postgresql://unused', makeSecrets()));
const app = await NestFactory.create(AppModule.forRoot(environment), new LinkedExpressAdapter(), {
  preview: true,
  logger: false,
  abortOnError: false,
});
writeIfChanged('openapi.json', Buffer.from(JSON.stringify(createOpenApiDocument(app))));
