// An event of the audit log as `replay` reads it, and a step of the plan that it makes from them.
import { z } from 'zod';

/** The fields of a subject before or after a change. */
const stateSchema = z.object({
  is_active: z.boolean().optional(),
  email: z.string().optional(),
  email_verified: z.boolean().optional(),
  role: z.string().optional(),
  expires_at: z.string().nullable().optional(),
  targets: z.unknown().optional(),
  scopes: z.unknown().optional(),
  for_users: z.unknown().optional(),
});

export const eventSchema = z.object({
  time: z.string().transform((text) => Date.parse(text)),
  event: z.string(),
  subject: z.string().nullable(),
  details: z
    .object({
      user_id: z.string().optional(),
      ended_sessions: z.number().optional(),
      // Printed as a part of a command, and the file is not trusted.
      kid: z
        .string()
        .regex(/^\w[\w-]*$/)
        .optional()
        .catch(undefined),
      before: stateSchema.optional(),
      after: stateSchema.optional(),
    })
    .catch({}),
});
export type ReplayedEvent = z.output<typeof eventSchema>;

export interface Step {
  readonly action: 'revoke' | 'expire' | 'delete' | 'disable' | 'end sessions' | 'remove' | 'demote' | 'cancel';
  readonly path: string;
  /** The name that people know it by. */
  readonly subject: string;
  /** Of `expire`: the end that the key had. */
  readonly expires_at?: string;
}
