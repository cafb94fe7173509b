import type { INestApplication } from '@nestjs/common';
import { DocumentBuilder, SwaggerModule, type OpenAPIObject } from '@nestjs/swagger';
import { readPackageVersion } from '../../common/package-version.js';
import { ProblemSchema } from '../../problems/api-problems.js';
import { completeDocument } from './complete-document.js';

const DESCRIPTION = `The central authority for authentication of a multi-service platform.

**Two verdicts, never confused.** \`401\` means: the credential is not valid. \`503\` with \`Retry-After\` means: the
credential could not be checked. Keep it and try again.

Every error is an RFC 9457 problem (\`application/problem+json\`) with a stable \`code\` to branch on and the
\`request_id\` under which the operator finds it in the logs.

Paths match exactly, in case and in slashes. A path that exists but does not support the method is
\`405\` (\`method_not_allowed\`) with \`Allow\`; \`OPTIONS\` answers 204 with \`Allow\`.`;

/** In the order in which a newcomer needs them. */
const TAGS = {
  auth: 'Users register, log in, renew their tokens and log out.',
  users: 'Accounts: what their owner, a service and an operator may read, and what the owner changes.',
  internal: 'For services: is the credential that a caller presented valid?',
  admin: 'For operators: users, app credentials, nodes, operators, and the audit log.',
  health: 'For load balancers and orchestrators.',
} as const;

/** Creates the OpenAPI document of all routes. The id of an operation is the name of the controller's method. */
export function createOpenApiDocument(app: INestApplication): OpenAPIObject {
  const config = new DocumentBuilder()
    .setTitle('Authentication service')
    .setDescription(DESCRIPTION)
    .setVersion(readPackageVersion())
    .addServer('/', 'this service')
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
    .addApiKey(
      { type: 'apiKey', in: 'header', name: 'X-Admin-Key', description: 'ADMIN_API_KEY, or the key of an operator' },
      'admin',
    );
  for (const [name, description] of Object.entries(TAGS)) config.addTag(name, description);
  const document = SwaggerModule.createDocument(app, config.build(), {
    extraModels: [ProblemSchema],
    operationIdFactory: (_controller, method) => method,
  });
  return completeDocument(document);
}
