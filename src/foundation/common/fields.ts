import { applyDecorators } from '@nestjs/common';
import { ApiProperty, ApiPropertyOptional, type ApiPropertyOptions } from '@nestjs/swagger';
import { Transform } from 'class-transformer';
import {
  ARRAY_MAX_SIZE,
  ArrayMaxSize,
  ArrayNotEmpty,
  IsBoolean,
  isEmail,
  IsEmail,
  IsInt,
  IsIP,
  IsISO8601,
  IsOptional,
  IsUUID,
  Matches,
  Max,
  MaxLength,
  Min,
  registerDecorator,
  ValidateIf,
} from 'class-validator';
import {
  EXAMPLES,
  APP_SCOPE_FORMAT,
  HOUSEHOLD_ROLES,
  OPERATOR_NAME_FORMAT,
  type NameKind,
  isRestriction,
  isOperatorScopeList,
  SERVICE_NAME_FORMAT,
  MAX_RESTRICTIONS,
  OPERATOR_SCOPES,
  toCanonicalOperatorName,
} from './names.js';

/** Longer than any ISO 8601 moment with nanoseconds and an offset. */
const MAX_MOMENT_LENGTH = 40;
const MOMENT_SCHEMA = { type: String, format: 'date-time', maxLength: MAX_MOMENT_LENGTH } as const;
const MAX_PASSWORD_LENGTH = 256;
export const PASSWORD_DETAIL = `must be text of 1 to ${MAX_PASSWORD_LENGTH} characters`;
/** Documents a {@link PasswordField} that sets a password. */
export const NEW_PASSWORD = {
  description: 'A new password needs PASSWORD_MIN_LENGTH characters (8) and must not be a common one.',
};

export const ID = { type: String, format: 'uuid', example: EXAMPLES.id } as const;
export const HOUSEHOLD_ID = { ...ID, example: EXAMPLES.householdId } as const;
export const HOUSEHOLD_ROLE = { enum: HOUSEHOLD_ROLES, enumName: 'HouseholdRole', example: 'member' } as const;
export const EMAIL = { type: String, format: 'email', example: EXAMPLES.email } as const;
export const NULLABLE_TEXT = { type: String, nullable: true } as const;
export const MOMENT = { type: String, format: 'date-time', example: EXAMPLES.moment } as const;
export const NULLABLE_MOMENT = { ...MOMENT, nullable: true, example: null } as const;
export const NETWORK = { type: String, nullable: true, example: EXAMPLES.network } as const;

function Accepts(
  name: string,
  detail: string,
  accepts: (value: unknown) => boolean,
  ...constraints: unknown[]
): PropertyDecorator {
  return (target, propertyName) => {
    registerDecorator({
      name,
      target: target.constructor,
      propertyName: String(propertyName),
      constraints,
      validator: { validate: accepts, defaultMessage: () => detail },
    });
  };
}

/** The table of routes finds lists by the name of this rule, and a body's other lists are refused before validation. */
const AcceptsList = (maxItems: number, detail: string, accepts: (value: unknown) => boolean) =>
  Accepts(ARRAY_MAX_SIZE, detail, accepts, maxItems);

/**
 * Allows a list of texts below a field whose content is validated elsewhere.
 * @param pointer JSON Pointer from the field to the list (RFC 6901)
 */
export const HasListBelow = (pointer: string, maxItems: number) =>
  Accepts(ARRAY_MAX_SIZE, '', () => true, maxItems, pointer);

/** Lengths count Unicode code points. */
export function CharactersBetween(from: number, to: number): PropertyDecorator {
  return Accepts('charactersBetween', `must be text of ${from} to ${to} characters`, (value) =>
    hasCharactersBetween(value, from, to),
  );
}

function hasCharactersBetween(value: unknown, from: number, to: number): value is string {
  if (typeof value !== 'string') return false;
  const length = Array.from(value).length;
  return length >= from && length <= to;
}

/** Skips the other rules when the client did not send the field. `null` counts as sent. */
export function IfSent(): PropertyDecorator {
  return ValidateIf((_, value) => value !== undefined);
}

export interface Presence {
  readonly optional?: boolean;
}

function Field(schema: ApiPropertyOptions, { optional = false }: Presence = {}): PropertyDecorator {
  return optional ? applyDecorators(ApiPropertyOptional(schema), IfSent()) : ApiProperty(schema);
}

export function TextField(
  maxLength: number,
  described: { description: string; example: string },
  presence?: Presence,
): PropertyDecorator {
  return applyDecorators(Field({ minLength: 1, maxLength, ...described }, presence), CharactersBetween(1, maxLength));
}

/** Checks the length only, so that a login accepts every existing password. `NewPasswords` judges new ones. */
export function PasswordField(
  described: { description?: string; example?: string } = {},
  presence?: Presence,
): PropertyDecorator {
  const schema = { format: 'password', minLength: 1, maxLength: MAX_PASSWORD_LENGTH, example: EXAMPLES.password };
  const field = Field({ type: String, ...schema, ...described }, presence);
  return applyDecorators(field, CharactersBetween(1, MAX_PASSWORD_LENGTH));
}

/** An optional whole number. Its default is the initial value of the property. */
export function WholeNumberField(minimum: number, maximum: number, description: string, example: number) {
  const rule = { message: `must be a whole number from ${minimum} to ${maximum}` };
  return applyDecorators(
    Field({ type: 'integer', minimum, maximum, description, example }, { optional: true }),
    IsInt(rule),
    Min(minimum, rule),
    Max(maximum, rule),
  );
}

/** An optional whole number from 1 on in a query. */
export function QueryNumberField(maximum: number, described: { default: number; description?: string }) {
  const rule = { message: `must be a whole number from 1 to ${maximum}` };
  return applyDecorators(
    Field({ type: 'integer', minimum: 1, maximum, ...described }, { optional: true }),
    Transform(({ value }: { value: unknown }) =>
      typeof value === 'string' && /^\d{1,4}$/.test(value) ? Number(value) : value,
    ),
    IsInt(rule),
    Min(1, rule),
    Max(maximum, rule),
  );
}

const MAX_LABEL_LENGTH = 100;
/** One line, no control or format characters, no lone surrogates, not blank. */
const LABEL = /^(?=.*[^\s\p{DI}])[^\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]*$/u;

/** Applies the rules of {@link LabelField} to an imported name. */
export function isLabel(value: unknown): value is string {
  return hasCharactersBetween(value, 1, MAX_LABEL_LENGTH) && LABEL.test(value);
}

/** A label for people. */
export function LabelField(example: string, presence?: Presence, description?: string): PropertyDecorator {
  const schema = { type: String, minLength: 1, maxLength: MAX_LABEL_LENGTH, example };
  return applyDecorators(
    Field({ ...schema, ...(description && { description }) }, presence),
    CharactersBetween(1, MAX_LABEL_LENGTH),
    Matches(LABEL, { message: 'must be one line of visible characters' }),
  );
}

export function SearchField(example: string, description: string): PropertyDecorator {
  return LabelField(example, { optional: true }, description);
}

/** The longest form: IPv6 that ends with a dotted IPv4 address. */
const MAX_ADDRESS_LENGTH = 45;
const ADDRESS_DETAIL = 'must be an IPv4 or IPv6 address';

export function AddressField(description: string, presence?: Presence): PropertyDecorator {
  const schema = { type: String, maxLength: MAX_ADDRESS_LENGTH, description, example: EXAMPLES.network };
  return applyDecorators(
    Field(schema, presence),
    MaxLength(MAX_ADDRESS_LENGTH, { message: ADDRESS_DETAIL }),
    IsIP(undefined, { message: ADDRESS_DETAIL }),
  );
}

export function SwitchField(described: { description: string; example: boolean }): PropertyDecorator {
  return applyDecorators(Field(described, { optional: true }), IsBoolean({ message: 'must be true or false' }));
}

/** A filter of a list that is either `true` or absent. */
export function FlagField(description: string): PropertyDecorator {
  return applyDecorators(
    Field({ type: Boolean, enum: [true], description }, { optional: true }),
    Transform(({ value }: { value: unknown }) => (value === 'true' ? true : value)),
    Accepts('flag', 'must be true, or absent', (value) => value === true),
  );
}

function NameField({ schema, detail, isName }: NameKind, example: string, presence?: Presence): PropertyDecorator {
  return applyDecorators(Field({ ...schema, example }, presence), Accepts('name', detail, isName));
}

export const ServiceNameField = (example: string, presence?: Presence) =>
  NameField(SERVICE_NAME_FORMAT, example, presence);
export const AppScopeField = () => NameField(APP_SCOPE_FORMAT, EXAMPLES.appScope, { optional: true });

export function OperatorNameField(presence?: Presence): PropertyDecorator {
  return applyDecorators(
    NameField(OPERATOR_NAME_FORMAT, EXAMPLES.operator, presence),
    Transform(({ value }: { value: unknown }) =>
      OPERATOR_NAME_FORMAT.isName(value) ? toCanonicalOperatorName(value) : value,
    ),
  );
}

export function OperatorScopesField(presence?: Presence): PropertyDecorator {
  const schema: ApiPropertyOptions = {
    enum: OPERATOR_SCOPES,
    enumName: 'OperatorScope',
    isArray: true,
    minItems: 1,
    maxItems: OPERATOR_SCOPES.length,
    uniqueItems: true,
    description: 'read: every GET of the admin door; the others: every route of that resource',
    example: ['read', 'nodes'],
  };
  const detail = `must be a list of one or more different scopes: ${OPERATOR_SCOPES.join(', ')}`;
  return applyDecorators(Field(schema, presence), AcceptsList(OPERATOR_SCOPES.length, detail, isOperatorScopeList));
}

const LIST = { type: 'array', minItems: 1, maxItems: MAX_RESTRICTIONS, uniqueItems: true } as const;
export const TARGETS = {
  ...LIST,
  items: SERVICE_NAME_FORMAT.schema,
  example: [EXAMPLES.target],
  description: 'the only services at which the node is accepted',
} as const;
export const APP_SCOPES = {
  ...LIST,
  items: APP_SCOPE_FORMAT.schema,
  example: [EXAMPLES.appScope],
  description: 'the only scopes that the credential has',
} as const;

export const NULLABLE_TARGETS = allowNullForAll(TARGETS);
export const NULLABLE_APP_SCOPES = allowNullForAll(APP_SCOPES);

function allowNullForAll<Schema extends { readonly description: string }>(schema: Schema) {
  return { ...schema, nullable: true, description: `${schema.description}; null: all` } as const;
}

export const TargetsField = (whenAbsent = '') =>
  RestrictionField(NULLABLE_TARGETS, SERVICE_NAME_FORMAT, 'names of services', whenAbsent);

export const AppScopesField = () =>
  RestrictionField(NULLABLE_APP_SCOPES, APP_SCOPE_FORMAT, `scopes, such as ${EXAMPLES.appScope}`);

function RestrictionField(
  schema: ApiPropertyOptions & { readonly description: string },
  { isName }: NameKind,
  names: string,
  whenAbsent = '',
): PropertyDecorator {
  const detail = `must be null, or a list of 1 to ${MAX_RESTRICTIONS} different ${names}`;
  return applyDecorators(
    Field({ ...schema, description: schema.description + whenAbsent }, { optional: true }),
    AcceptsList(MAX_RESTRICTIONS, detail, (value) => value === null || isRestriction(value, isName)),
  );
}

/** A list of one or more different words of a closed list. */
export function ChoicesField(choices: readonly string[], enumName: string, example: string[]): PropertyDecorator {
  const schema: ApiPropertyOptions = {
    enum: choices as string[],
    enumName,
    isArray: true,
    minItems: 1,
    uniqueItems: true,
    example,
  };
  const isList = (value: unknown): boolean =>
    Array.isArray(value) && isRestriction(value, (each): each is string => choices.some((choice) => choice === each));
  const detail = `must be a list of one or more different words of: ${choices.join(', ')}`;
  return applyDecorators(Field(schema), AcceptsList(choices.length, detail, isList));
}

export function UuidField(
  described: { example: string; description?: string },
  presence?: Presence,
): PropertyDecorator {
  const schema = { type: String, format: 'uuid', ...described };
  return applyDecorators(Field(schema, presence), IsUUID('loose', { message: 'must be a UUID' }));
}

export function UuidListField(maxItems: number): PropertyDecorator {
  return applyDecorators(
    Field({ type: [String], format: 'uuid', minItems: 1, maxItems, example: [EXAMPLES.id] }),
    ArrayMaxSize(maxItems, { message: `must have at most ${maxItems} items` }),
    ArrayNotEmpty({ message: 'must not be empty' }),
    IsUUID('loose', { each: true, message: 'must be a list of UUIDs' }),
  );
}

export const ExpiresAtField = (): PropertyDecorator => NullableMomentField('refused from this moment on; null: never');

export function NullableMomentField(description: string): PropertyDecorator {
  return applyDecorators(
    ApiPropertyOptional({
      ...MOMENT_SCHEMA,
      nullable: true,
      description,
      // `examples` and not `example`, which Swagger UI would send with every request.
      examples: ['2030-01-01T00:00:00.000Z'],
    }),
    IsOptional(),
    IsMoment(),
  );
}

export function MomentField(description: string): PropertyDecorator {
  return applyDecorators(
    Field({ ...MOMENT_SCHEMA, description, example: EXAMPLES.moment }, { optional: true }),
    IsMoment(),
  );
}

function IsMoment(): PropertyDecorator {
  return applyDecorators(
    CharactersBetween(1, MAX_MOMENT_LENGTH),
    IsISO8601({ strict: true, strictSeparator: true }, { message: 'must be a date and time (ISO 8601)' }),
    Matches(/T.*(Z|[+-]\d\d:?\d\d)$/, { message: 'must name a time and its offset, as in 2030-01-01T00:00:00Z' }),
    Accepts('yearInRange', 'must be between the years 2000 and 9999', (value) => {
      const year = typeof value === 'string' ? new Date(value).getUTCFullYear() : NaN;
      return year >= 2000 && year <= 9999;
    }),
  );
}

/** Parses an ISO 8601 moment that was validated; keeps null and undefined. */
export function parseMoment<T extends null | undefined>(text: string | T): Date | T {
  return typeof text === 'string' ? new Date(text) : text;
}

const PRINTABLE_ASCII = /^[\x21-\x7e]{3,254}$/;
const EMAIL_OPTIONS = { allow_utf8_local_part: false };
/** `"alice"@x.org` is the mailbox of `alice@x.org` (RFC 5321 §4.1.2), and would be a second account of it. */
const WITHOUT_QUOTES = /^[^"]*$/;

/**
 * Applies the rules of {@link NewEmailField} to an imported address.
 * @returns its canonical form; undefined when the rules refuse it
 */
export function parseNewEmail(text: string): string | undefined {
  const isAccepted = PRINTABLE_ASCII.test(text) && WITHOUT_QUOTES.test(text) && isEmail(text, EMAIL_OPTIONS);
  return isAccepted ? text.toLowerCase() : undefined;
}

/** Printable ASCII only: other characters allow addresses that look alike (full-width letters, bidi characters). */
export function EmailField(presence?: Presence): PropertyDecorator {
  return applyDecorators(
    Field({ type: String, format: 'email', maxLength: 254, example: EXAMPLES.email }, presence),
    // Lower-casing a character outside ASCII could produce an ASCII one, so ASCII is checked first.
    Transform(({ value }: { value: unknown }) =>
      typeof value === 'string' && PRINTABLE_ASCII.test(value) ? value.toLowerCase() : value,
    ),
    Matches(PRINTABLE_ASCII, { message: 'must be 3 to 254 printable ASCII characters' }),
    IsEmail(EMAIL_OPTIONS, { message: 'must be an e-mail address' }),
  );
}

/** The address of a new account. Existing accounts may have a quoted one, and log in with it. */
export function NewEmailField(presence?: Presence): PropertyDecorator {
  return applyDecorators(
    EmailField(presence),
    Matches(WITHOUT_QUOTES, { message: 'must not contain a quotation mark' }),
  );
}
