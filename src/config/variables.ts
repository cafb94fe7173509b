import * as z from 'zod';
import { accountSection, DEVELOPMENT_MAIL, mailSection, throttleSection, tokenSection } from './account-variables.js';
import {
  databaseSection,
  EVERY_ADDRESS,
  keySection,
  logSection,
  LOOPBACK,
  metricsSection,
  PRODUCTION_SHUTDOWN_DELAY_MS,
  retentionSection,
  secretSection,
  serverSection,
  stopSection,
} from './service-variables.js';
import type { Section, VariablesOf } from './variable-kinds.js';

// The schema of the configuration. A new variable is one entry in a section of service-variables.ts or
// account-variables.ts; `npm run docs:configuration` writes it into .env.example and docs/configuration.md.

const sections = [
  secretSection,
  serverSection,
  databaseSection,
  tokenSection,
  accountSection,
  mailSection,
  throttleSection,
  keySection,
  logSection,
  metricsSection,
  stopSection,
  retentionSection,
] as const;

export const SECTIONS: readonly Section[] = sections;

type Definitions = VariablesOf<typeof sections>;
export type VariableName = keyof Definitions;
type Shape = { [Name in VariableName]: Definitions[Name]['type'] };

/** The type of each variable, by its name. */
export const VARIABLE_TYPES = Object.fromEntries(
  SECTIONS.flatMap(({ variables }) => Object.entries(variables).map(([name, { type }]) => [name, type])),
) as Shape;

/** Variables whose value may come from a file. */
export const FILE_VARIABLES = SECTIONS.flatMap(({ variables }) =>
  Object.entries(variables).flatMap(([name, { mayBeFile }]) => (mayBeFile ? [name as VariableName] : [])),
);

const given = z.object(VARIABLE_TYPES);

/** Defaults that depend on other variables. */
function fillDefaults(value: z.output<typeof given>) {
  const isProduction = value.NODE_ENV === 'production';
  return {
    ...value,
    HOST: value.HOST ?? (isProduction ? EVERY_ADDRESS : LOOPBACK),
    WEBAUTHN_RP_ID: value.WEBAUTHN_RP_ID ?? (isProduction ? undefined : 'localhost'),
    WEBAUTHN_ORIGINS: value.WEBAUTHN_ORIGINS ?? (isProduction ? undefined : [`http://localhost:${value.PORT}`]),
    SHUTDOWN_DELAY_MS: value.SHUTDOWN_DELAY_MS ?? (isProduction ? PRODUCTION_SHUTDOWN_DELAY_MS : 0),
    ...fillMail(value),
  };
}

/** Without a mail server, the mails that development prints need no setting. */
function fillMail({ MAIL_URL, MAIL_FROM, PASSWORD_RESET_URL, EMAIL_VERIFICATION_URL }: z.output<typeof given>) {
  const defaults = MAIL_URL === undefined ? DEVELOPMENT_MAIL : undefined;
  return {
    MAIL_FROM: MAIL_FROM ?? defaults?.MAIL_FROM,
    PASSWORD_RESET_URL: PASSWORD_RESET_URL ?? defaults?.PASSWORD_RESET_URL,
    EMAIL_VERIFICATION_URL: EMAIL_VERIFICATION_URL ?? defaults?.EMAIL_VERIFICATION_URL,
  };
}

export type Values = ReturnType<typeof fillDefaults>;

interface Rule {
  readonly name: VariableName;
  /** What the variable must do, which the refusal and docs/configuration.md say. */
  readonly requirement: string;
  readonly isKept: (value: Values) => boolean;
}

/** Rules between variables. */
export const RULES: readonly Rule[] = [
  {
    name: 'WEBAUTHN_RP_ID',
    requirement: 'must be set together with WEBAUTHN_ORIGINS',
    isKept: (value) => (value.WEBAUTHN_RP_ID === undefined) === (value.WEBAUTHN_ORIGINS === undefined),
  },
  {
    name: 'WEBAUTHN_ORIGINS',
    requirement: 'must have hosts that are WEBAUTHN_RP_ID or end with a dot and it',
    isKept: ({ WEBAUTHN_RP_ID: rpId, WEBAUTHN_ORIGINS: origins = [] }) =>
      rpId === undefined || origins.every((origin) => isBelow(origin, rpId)),
  },
  {
    name: 'INTERNAL_PORT',
    requirement: 'must differ from PORT',
    isKept: (value) => isDistinct(value.INTERNAL_PORT, value.PORT),
  },
  {
    name: 'METRICS_PORT',
    requirement: 'must differ from PORT',
    isKept: (value) => isDistinct(value.METRICS_PORT, value.PORT),
  },
  {
    name: 'METRICS_PORT',
    requirement: 'must differ from INTERNAL_PORT',
    isKept: (value) => isDistinct(value.METRICS_PORT, value.INTERNAL_PORT),
  },
  ...(['MAIL_FROM', 'PASSWORD_RESET_URL', 'EMAIL_VERIFICATION_URL'] as const).map((name) => ({
    name,
    requirement: 'must be set when MAIL_URL is',
    isKept: (value: Values) => value.MAIL_URL === undefined || value[name] !== undefined,
  })),
  {
    name: 'REQUIRE_VERIFIED_EMAIL',
    requirement: 'needs MAIL_URL in production',
    isKept: (value) => !value.REQUIRE_VERIFIED_EMAIL || value.MAIL_URL !== undefined || value.NODE_ENV !== 'production',
  },
];

/** Whether an origin is of the domain, or of one below it. */
function isBelow(origin: string, domain: string): boolean {
  return URL.canParse(origin) && `.${new URL(origin).hostname}`.endsWith(`.${domain}`);
}

/** Port 0 means any free port. */
function isDistinct(port: number | undefined, other: number | undefined): boolean {
  return port === undefined || port === 0 || port !== other;
}

/** Every variable, validated, with its default. */
export const schema = given
  .superRefine((value, context) => {
    const filled = fillDefaults(value);
    for (const { name, requirement, isKept } of RULES)
      if (!isKept(filled)) context.addIssue({ code: 'custom', path: [name], message: requirement });
  })
  .transform(fillDefaults);
