import type { INestApplication } from '@nestjs/common';
import { DocumentBuilder, SwaggerModule, type OpenAPIObject } from '@nestjs/swagger';
import { ProblemSchema } from './access/api-problems.js';

const DESCRIPTION = `The central authority for authentication of a multi-service platform.

**Two verdicts, never confused.** \`401\` means: I looked, and this credential is not good. \`503\` with \`Retry-After\`
means: I could not look. Keep the credential and try again.

Every error is an RFC 9457 problem (\`application/problem+json\`) with a stable \`code\` to branch on and the
\`request_id\` under which the operator finds it in the logs.

Paths match exactly, in case and in slashes. A path that exists but has not the method is \`405\`
(\`method_not_allowed\`) with \`Allow\`.`;

/** The OpenAPI document of everything that is routed. */
export function openApiDocument(app: INestApplication): OpenAPIObject {
  const config = new DocumentBuilder()
    .setTitle('Authentication service')
    .setDescription(DESCRIPTION)
    .setVersion('0')
    .addBearerAuth(
      { type: 'http', scheme: 'bearer', bearerFormat: 'JWT', description: 'access token of a user' },
      'user',
    )
    .addApiKey(
      { type: 'apiKey', in: 'header', name: 'X-Platform-App-Id', description: 'app id of a service' },
      'app_id',
    )
    .addApiKey(
      { type: 'apiKey', in: 'header', name: 'X-Platform-App-Key', description: 'app key of a service' },
      'app_key',
    )
    .addApiKey({ type: 'apiKey', in: 'header', name: 'X-API-Key', description: 'node_id:api_key of a node' }, 'node')
    .addApiKey({ type: 'apiKey', in: 'header', name: 'X-Admin-Key', description: 'ADMIN_API_KEY' }, 'admin')
    .build();
  return SwaggerModule.createDocument(app, config, { extraModels: [ProblemSchema] });
}

/** Swagger UI at /docs and the document at /docs-json. */
export function serveDocs(app: INestApplication): void {
  SwaggerModule.setup('docs', app, () => openApiDocument(app), {
    jsonDocumentUrl: 'docs-json',
    yamlDocumentUrl: 'docs-yaml',
    customSiteTitle: 'Authentication service',
    swaggerOptions: { persistAuthorization: false, displayRequestDuration: true, tryItOutEnabled: true },
  });
}
