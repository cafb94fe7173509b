/**
 * What pages know of the properties of a DTO: they read the API's document, so that a further property appears in the
 * forms and on the page of its resource without a line here. The build has made the document.
 */
import { readFileSync } from 'node:fs';
import type { VNode } from 'preact';
import { findPackageFile } from '../foundation/common/package-version.js';
import { Ago, LATER } from './moments.js';
import type { FieldProps } from './fields.js';
import type { FactList } from './tables.js';

/** A DTO, whose name is that of its schema. */
type Dto = Readonly<Record<'name', string>>;

interface Schema {
  readonly type?: string | readonly string[];
  readonly format?: string;
  readonly enum?: readonly string[];
  readonly items?: Schema;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly $ref?: string;
}

interface Property {
  readonly name: string;
  readonly label: string;
  readonly isRequired: boolean;
  readonly isMoment: boolean;
  readonly isList: boolean;
  /** The only values of it, or of the items of a list. */
  readonly values: readonly string[] | undefined;
}

let schemas: Readonly<Record<string, Schema>> | undefined;

/** @throws {Error} for a class that is not in the document */
function findSchema(name: string): Schema {
  if (!schemas) {
    const document = readFileSync(findPackageFile('dist/docs/openapi.json'), 'utf8');
    schemas = (JSON.parse(document) as { components: { schemas: Record<string, Schema> } }).components.schemas;
  }
  const schema = schemas[name];
  if (!schema) throw new Error(`The API's document has no schema ${name}`);
  return schema;
}

function resolve(schema: Schema): Schema {
  return schema.$ref === undefined ? schema : findSchema(schema.$ref.split('/').at(-1) ?? '');
}

/** @returns the label of a property: that of `household_id` is Household */
export function toLabel(name: string): string {
  const words = name.replace(/_id$/, '').replaceAll('_', ' ');
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** @returns the text of a value; a list has blanks between its words */
export function showValue(value: unknown): string {
  if (value == null) return '';
  if (Array.isArray(value)) return value.map(showValue).join(' ');
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** @returns the properties of a DTO, in the order of the document */
export function listProperties(dto: Dto): Property[] {
  const { properties = {}, required = [] } = findSchema(dto.name);
  return Object.entries(properties).map(([name, described]) => {
    const { type = [], format, items, enum: own } = resolve(described);
    return {
      name,
      label: toLabel(name),
      isRequired: required.includes(name),
      isMoment: format === 'date-time',
      isList: [type].flat().includes('array'),
      values: own ?? (items && resolve(items).enum),
    };
  });
}

/** @returns a field for each property of a body, the required ones first */
export function listFields(body: Dto, hints: Readonly<Record<string, string | undefined>>): FieldProps[] {
  const fields = listProperties(body).map(({ isMoment, values, ...property }): FieldProps => {
    const field = { ...property, hint: hints[property.name] };
    if (isMoment) return { ...field, type: 'moment', options: LATER };
    return values ? { ...field, known: values, isClosed: true } : field;
  });
  return fields.sort((one, other) => Number(other.isRequired) - Number(one.isRequired));
}

/** @returns the properties that a page does not show in words of its own */
export function listOtherFacts(dto: Dto, item: object, shown: readonly string[]): FactList {
  return listProperties(dto)
    .filter(({ name }) => !shown.includes(name))
    .map((property) => [property.label, <Value of={property} value={Reflect.get(item, property.name) as unknown} />]);
}

/** A value as a page shows it. A list that is null restricts nothing. */
export function Value({ of: { isMoment, isList }, value }: { of: Property; value: unknown }): VNode {
  if (isMoment) return <Ago at={value as string | null} />;
  if (typeof value === 'boolean') return <>{value ? 'yes' : 'no'}</>;
  return <bdi>{showValue(value) || (isList ? 'all' : '–')}</bdi>;
}
