import type { z } from 'zod';

/** Everything about one variable of the configuration. Its name is the key under which a section lists it. */
export interface Variable {
  /** Type, bounds and default. */
  readonly type: z.ZodType;
  /** For the table of docs/configuration.md. */
  readonly meaning: string;
  /** For .env.example. `{bounds}` stands for the bounds of the type, and a line break stays. */
  readonly explanation: string;
  /** What the table shows as the default when the type has none. Without it: none. */
  readonly defaultText?: string;
  /** What .env.example shows as the value when the type has no default. */
  readonly example?: string | number;
  /** The value may come from a file, which the variable with the suffix `_FILE` names. */
  readonly mayBeFile?: true;
}

/** Variables that belong together, in the order in which the documents list them. */
export interface Section {
  readonly title: string;
  /** For .env.example, before the variables. */
  readonly introduction?: string;
  readonly variables: Readonly<Record<string, Variable>>;
  /** For .env.example, after the variables. */
  readonly note?: string;
}

/** The variables of several sections, as one object. */
export type VariablesOf<Sections extends readonly Section[]> = Sections extends readonly [
  infer First extends Section,
  ...infer Rest extends readonly Section[],
]
  ? First['variables'] & VariablesOf<Rest>
  : unknown;
