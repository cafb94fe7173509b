// The schema of the configuration. A new variable is one entry in a section of service-variables.ts or
// account-variables.ts; `npm run docs:configuration` writes it into .env.example and docs/configuration.md.

import * as z from 'zod';
import { accountSections, DEVELOPMENT_MAIL } from './account-variables.js';
import {
  EVERY_ADDRESS,
  LOOPBACK,
  operationSections,
  PRODUCTION_SHUTDOWN_DELAY_MS,
  serverSections,
} from './service-variables.js';
import { DEV_MARK, type Section } from './variable-kinds.js';

const sections = [...serverSections, ...accountSections, ...operationSections] as const;

export const SECTIONS: readonly Section[] = sections;

/** `A & B` for `A | B`: the variables of all sections, as one object. */
type Intersection<Union> = (Union extends unknown ? (each: Union) => void : never) extends (each: infer All) => void
  ? All
  : never;
type Definitions = Intersection<(typeof sections)[number]['variables']>;
export type VariableName = keyof Definitions;
type Shape = { [Name in VariableName]: Definitions[Name]['type'] };

export const VARIABLE_TYPES = Object.fromEntries(
  SECTIONS.flatMap(({ variables }) => Object.entries(variables).map(([name, { type }]) => [name, type])),
) as Shape;

export const FILE_VARIABLES = SECTIONS.flatMap(({ variables }) =>
  Object.entries(variables).flatMap(([name, { mayBeFile }]) => (mayBeFile ? [name as VariableName] : [])),
);

const given = z.object(VARIABLE_TYPES);
export type Parsed = z.output<typeof given>;

/** Sets the defaults that depend on other variables, and the mail settings of a development without a mail server. */
function fillDefaults(value: Parsed) {
  const isProduction = value.NODE_ENV === 'production';
  const host = value.HOST ?? (isProduction ? EVERY_ADDRESS : LOOPBACK);
  const mail = value.MAIL_URL === undefined ? DEVELOPMENT_MAIL : undefined;
  return {
    ...value,
    CONSOLE: value.CONSOLE ?? (value.NODE_ENV === 'development' ? 'on' : 'off'),
    MASTER_KEY: value.MASTER_KEY ?? value.SECRET_KEY,
    MASTER_KEY_PREVIOUS:
      value.MASTER_KEY_PREVIOUS ?? (value.MASTER_KEY === undefined ? value.SECRET_KEY_PREVIOUS : undefined),
    HOST: host,
    METRICS_HOST: value.METRICS_HOST ?? host,
    WEBAUTHN_RP_ID: value.WEBAUTHN_RP_ID ?? (isProduction ? undefined : 'localhost'),
    WEBAUTHN_ORIGINS: value.WEBAUTHN_ORIGINS ?? (isProduction ? undefined : [`http://localhost:${value.PORT}`]),
    SHUTDOWN_DELAY_MS: value.SHUTDOWN_DELAY_MS ?? (isProduction ? PRODUCTION_SHUTDOWN_DELAY_MS : 0),
    MAIL_FROM: value.MAIL_FROM ?? mail?.MAIL_FROM,
    PASSWORD_RESET_URL: value.PASSWORD_RESET_URL ?? mail?.PASSWORD_RESET_URL,
    EMAIL_VERIFICATION_URL: value.EMAIL_VERIFICATION_URL ?? mail?.EMAIL_VERIFICATION_URL,
  };
}

export type Values = ReturnType<typeof fillDefaults>;

interface Rule {
  readonly name: VariableName;
  /** The other variables of the rule, which is not checked if one of them is refused. */
  readonly others: readonly VariableName[];
  readonly requirement: string;
  readonly isKept: (value: Values) => boolean;
}

export const RULES: readonly Rule[] = [
  {
    name: 'WEBAUTHN_RP_ID',
    others: ['WEBAUTHN_ORIGINS'],
    requirement: 'must be set together with WEBAUTHN_ORIGINS',
    isKept: (value) => (value.WEBAUTHN_RP_ID === undefined) === (value.WEBAUTHN_ORIGINS === undefined),
  },
  {
    name: 'WEBAUTHN_ORIGINS',
    others: ['WEBAUTHN_RP_ID', 'PORT'],
    requirement: 'must have hosts that are WEBAUTHN_RP_ID or end with a dot and it',
    isKept: ({ WEBAUTHN_RP_ID: rpId, WEBAUTHN_ORIGINS: origins = [] }) =>
      rpId === undefined || origins.every((origin) => isBelow(origin, rpId)),
  },
  ...(
    [
      ['INTERNAL_PORT', 'PORT'],
      ['METRICS_PORT', 'PORT'],
      ['METRICS_PORT', 'INTERNAL_PORT'],
    ] as const
  ).map(([name, other]) => ({
    name,
    others: [other],
    requirement: `must differ from ${other}`,
    // Port 0 stands for any free port, so it never collides.
    isKept: ({ [name]: port, [other]: taken }: Values) => port === undefined || port === 0 || port !== taken,
  })),
  {
    name: 'DOCS',
    others: ['INTERNAL_PORT'],
    requirement: 'must not be internal without INTERNAL_PORT',
    isKept: (value) => value.DOCS !== 'internal' || value.INTERNAL_PORT !== undefined,
  },
  ...(
    [
      'SECRET_KEY',
      'SECRET_KEY_PREVIOUS',
      'MASTER_KEY',
      'MASTER_KEY_PREVIOUS',
      'ADMIN_API_KEY',
      'AUDIT_SEAL_KEY',
    ] as const
  ).map((name) => ({
    name,
    others: ['NODE_ENV'] as const,
    requirement: 'must not be the one of platform-auth dev, which is public: generate one with openssl rand -base64 48',
    isKept: (value: Values) => value.NODE_ENV !== 'production' || value[name]?.includes(DEV_MARK) !== true,
  })),
  ...(['MAIL_FROM', 'PASSWORD_RESET_URL', 'EMAIL_VERIFICATION_URL'] as const).map((name) => ({
    name,
    others: ['MAIL_URL'] as const,
    requirement: 'must be set when MAIL_URL is',
    isKept: (value: Values) => value.MAIL_URL === undefined || value[name] !== undefined,
  })),
  {
    name: 'REQUIRE_VERIFIED_EMAIL',
    others: ['MAIL_URL', 'NODE_ENV'],
    requirement: 'needs MAIL_URL in production',
    isKept: (value) => !value.REQUIRE_VERIFIED_EMAIL || hasMail(value),
  },
  {
    name: 'REGISTRATION_ANSWER',
    others: ['MAIL_URL', 'NODE_ENV'],
    requirement: 'must not be uniform without MAIL_URL in production',
    isKept: (value) => value.REGISTRATION_ANSWER !== 'uniform' || hasMail(value),
  },
];

/** Development prints its mails. */
function hasMail({ MAIL_URL, NODE_ENV }: Values): boolean {
  return MAIL_URL !== undefined || NODE_ENV !== 'production';
}

function isBelow(origin: string, domain: string): boolean {
  return URL.canParse(origin) && `.${new URL(origin).hostname}`.endsWith(`.${domain}`);
}

export const schema = given
  .superRefine((value, context) => {
    const filled = fillDefaults(value);
    const refused = new Set(context.issues.map(({ path }) => path?.[0]));
    for (const { name, others, requirement, isKept } of RULES)
      if (![name, ...others].some((each) => refused.has(each)) && !isKept(filled))
        context.addIssue({ code: 'custom', path: [name], message: requirement });
  })
  .transform(fillDefaults);
