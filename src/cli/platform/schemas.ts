// JSON Schemas for editors and pipelines: of the map, and of the variables of the service.
import * as z from 'zod';
import { toFileVariable } from '../../config/environment.js';
import { SECTIONS, VARIABLE_TYPES } from '../../config/variables.js';
import { mapSchema } from './platform-map.js';

const OPTIONS = { io: 'input', unrepresentable: 'any' } as const;
export const SCHEMAS = { map: createMapSchema, variables: createVariablesSchema };

function createMapSchema(): object {
  const schema = z.toJSONSchema(mapSchema, OPTIONS);
  return { title: 'The map of a platform: its services, and which calls which', ...schema };
}

/** What a value must be beyond its form, the service checks when it starts. */
function createVariablesSchema(): object {
  const { properties: forms = {}, ...schema } = z.toJSONSchema(z.object(VARIABLE_TYPES), OPTIONS);
  const properties = SECTIONS.flatMap(({ variables }) =>
    Object.entries(variables).flatMap(([name, { text, mayBeFile }]): [string, object][] => {
      const { bounds } = forms[name] as { bounds: string };
      const variable = { ...(forms[name] as object), bounds: undefined, description: `${text} (${bounds})` };
      const file = { type: 'string', description: `The name of a file that holds ${name}` };
      return [[name, variable], ...(mayBeFile ? [[toFileVariable(name), file] as [string, object]] : [])];
    }),
  );
  return {
    ...schema,
    title: 'The variables of the service',
    properties: Object.fromEntries(properties),
    patternProperties: { '^(OTEL_|NODE_(OPTIONS|EXTRA_CA_CERTS)$)': { type: 'string' } },
    // A required one may come from a file, and development has defaults.
    required: [],
    additionalProperties: false,
  };
}
