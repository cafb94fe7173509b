import type { OpenAPIObject } from '@nestjs/swagger';
import openapiTS, { astToString } from 'openapi-typescript';
import { format, resolveConfig } from 'prettier';

// Generates the types of what the command line reads from the service (`src/cli/remote/api-types.ts`), from the OpenAPI
// document. `npm run docs:api` writes the file, and test/cli/api-types.spec.ts fails when it is stale.

export const CLI_TYPES_FILE = 'src/cli/remote/api-types.ts';
const HEADING = '// Generated from the OpenAPI document by `npm run docs:api`. Do not edit.\n';
const SCHEMAS = [
  'AppCredentialResponse',
  'AuditEventResponse',
  'BackgroundWorkResponse',
  'NodeEnrolmentResponse',
  'IdentifiedKeysResponse',
  'ExplanationResponse',
  'IssuedAppCredentialResponse',
  'IssuedEnrolmentResponse',
  'IssuedNodeResponse',
  'IssuedOperatorResponse',
  'KeyCountsResponse',
  'NodeResponse',
  'OperatorResponse',
  'PasswordResetResponse',
  'Problem',
  'SessionResponse',
  'TargetsOfNodesResponse',
  'UnusedScopesResponse',
  'UserExplanationResponse',
  'AdminUserResponse',
];
/** What a type needs of a schema. Descriptions are in `/docs`, and a newer service may add values to an enumeration. */
const STRUCTURE = [
  '$ref',
  'type',
  'nullable',
  'properties',
  'required',
  'items',
  'additionalProperties',
  'allOf',
  'oneOf',
];

type Schema = Readonly<Record<string, unknown>>;

/** @returns the text of the file */
export async function generateCliTypes(document: OpenAPIObject): Promise<string> {
  const all = document.components?.schemas as Readonly<Record<string, Schema>>;
  const schemas: Record<string, unknown> = {};
  const addSchema = (name: string): void => {
    const schema = all[name];
    if (!schema) throw new Error(`The OpenAPI document has no schema ${name}.`);
    if (name in schemas) return;
    schemas[name] = selectStructure(schema);
    for (const [, referred = ''] of JSON.stringify(schema).matchAll(/#\/components\/schemas\/(\w+)/g))
      addSchema(referred);
  };
  SCHEMAS.forEach(addSchema);
  const nodes = await openapiTS({ ...document, paths: {}, components: { schemas } } as never, { immutable: true });
  const [, members = ''] = /^ {4}schemas: \{\n([^]*?)^ {4}\};/m.exec(astToString(nodes)) ?? [];
  const text = `${HEADING}export interface Api {\n${members.replaceAll('components["schemas"]', 'Api')}}\n`;
  return format(text, { ...(await resolveConfig(CLI_TYPES_FILE)), parser: 'typescript' });
}

function selectStructure(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(selectStructure);
  if (typeof schema !== 'object' || schema === null) return schema;
  const { properties, ...rest } = schema as Schema;
  const kept = Object.entries(rest).filter(([name]) => STRUCTURE.includes(name));
  const members = Object.entries((properties as Schema | undefined) ?? {});
  return {
    ...Object.fromEntries(kept.map(([name, value]) => [name, selectStructure(value)])),
    ...(members.length > 0 && {
      properties: Object.fromEntries(members.map(([name, value]) => [name, selectStructure(value)])),
    }),
  };
}
