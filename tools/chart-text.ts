// The generated parts of the chart: the values in its README, from the comments of values.yaml, and the names of
// `config` in values.schema.json, from the service's schema.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { format } from 'oxfmt';
import { isMap, isScalar, parseDocument, type YAMLMap } from 'yaml';
import { z } from 'zod';
import { VARIABLE_TYPES } from '../src/foundation/config/variables.js';
import { replacePart } from './marked-part.js';
import { wrapItem } from './wrapped.js';

const CHART = 'deploy/helm/platform-auth';
/** The chart itself sets these, or its values `ports` and `console`, so `config` must not. */
const SET_BY_CHART = ['NODE_ENV', 'WORKERS', 'PORT', 'INTERNAL_PORT', 'METRICS_PORT', 'CONSOLE'];

interface ValuesSchema {
  readonly properties: { readonly config: { properties: Record<string, object> } };
}
/** One variable of docs/variables.schema.json. */
interface Form {
  readonly enum?: readonly string[];
  readonly pattern?: string;
  readonly bounds: string;
}

/** @returns the path and the text of each generated file */
export async function renewChartFiles(): Promise<Record<string, string>> {
  const [readme, schema, values] = [
    join(CHART, 'README.md'),
    join(CHART, 'values.schema.json'),
    join(CHART, 'values.yaml'),
  ];
  return {
    [readme]: replacePart(read(readme), 'values', listValues(read(values))),
    [schema]: await nameVariables(read(schema)),
  };
}

async function nameVariables(schema: string): Promise<string> {
  const parsed = JSON.parse(schema) as ValuesSchema;
  const { properties = {} } = z.toJSONSchema(z.object(VARIABLE_TYPES), { io: 'input', unrepresentable: 'any' });
  const forms = Object.entries(properties as unknown as Record<string, Form>);
  parsed.properties.config.properties = Object.fromEntries(
    forms.filter(([name]) => !SET_BY_CHART.includes(name)).map(([name, form]) => [name, toValueForm(form)]),
  );
  return (await format('values.schema.json', JSON.stringify(parsed), { printWidth: 120 })).code;
}

/** A variable is text, but YAML may read its value as a number or a boolean. */
function toValueForm({ enum: words, pattern, bounds }: Form): object {
  if (words) return { enum: words.flatMap((word) => (/^(true|false)$/.test(word) ? [word, word === 'true'] : [word])) };
  const [, minimum, maximum] = /^(\d+)–(\d+)$/.exec(bounds) ?? [];
  if (maximum === undefined) return { $ref: '#/definitions/variable', ...(pattern && { pattern }) };
  return { type: ['string', 'integer'], pattern, minimum: Number(minimum), maximum: Number(maximum) };
}

/** @throws when a value has no comment */
function listValues(values: string): string {
  const document = parseDocument(values);
  if (!isMap(document.contents)) throw new Error('values.yaml is not a map.');
  return toItems(document.contents, '').join('\n');
}

function toItems(map: YAMLMap, prefix: string): string[] {
  return map.items.flatMap(({ key, value }, index) => {
    if (!isScalar(key)) throw new Error(`${prefix} has a key that is not a text.`);
    const name = `${prefix}${String(key.value)}`;
    // The parser attaches the comment of the first key to the map.
    const comment = key.commentBefore ?? (index === 0 && prefix !== '' ? map.commentBefore : undefined);
    const inside = isMap(value) && hasComments(value) ? toItems(value, `${name}.`) : [];
    if (!comment) {
      if (inside.length > 0) return inside;
      throw new Error(`${name} has no comment in values.yaml.`);
    }
    const meaning = comment.split('\n').map((line) => line.trim());
    const initial = inside.length > 0 ? 'below' : `\`${toText(value)}\``;
    return [wrapItem(`\`${name}\` (${initial}): ${meaning.join(' ')}`), ...inside];
  });
}

function hasComments({ commentBefore, items }: YAMLMap): boolean {
  return Boolean(commentBefore) || items.some(({ key }) => isScalar(key) && key.commentBefore);
}

function toText(value: unknown): string {
  return JSON.stringify(value);
}

function read(path: string): string {
  return readFileSync(path, 'utf8');
}
