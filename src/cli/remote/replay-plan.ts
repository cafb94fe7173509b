// An event of the audit log as `replay` reads it, and a step of the plan that it makes from them.
import { z } from 'zod';

export const eventSchema = z.object({
  time: z.string().transform((text) => Date.parse(text)),
  event: z.string(),
  subject: z.string().nullable(),
  details: z
    .object({
      user_id: z.string().optional(),
      after: z
        .object({
          is_active: z.boolean().optional(),
          email: z.string().optional(),
          role: z.string().optional(),
          targets: z.unknown().optional(),
        })
        .optional(),
    })
    .catch({}),
});
export type ReplayedEvent = z.output<typeof eventSchema>;

export interface Step {
  readonly action: 'revoke' | 'delete' | 'disable' | 'end sessions' | 'remove' | 'demote' | 'cancel';
  readonly path: string;
  /** The name that people know it by. */
  readonly subject: string;
}
