import { z } from 'zod';

/** The credentials with which one connection presents a user. */
const bearer = z.object({ userId: z.string(), sessionId: z.string(), token: z.string() });

/** The key with which a service asks; `secretKey` verifies its users' tokens. */
const ownKey = z.object({
  url: z.string(),
  appId: z.string(),
  appKey: z.string(),
  serviceName: z.string(),
  secretKey: z.string(),
});
export type OwnKey = z.output<typeof ownKey>;

/** The key with which a service reads events. */
const readerKey = ownKey.pick({ url: true, appId: true, appKey: true, serviceName: true });
export type ReaderKey = z.output<typeof readerKey>;
/** The first message to event-readers.ts; it answers any other with the number of events, and ends. */
export const readerKeys = z.array(readerKey);
const keys = z.array(z.string()).min(1);

/** The first message to a process of work.ts, by the kind of work. */
export const workTasks = {
  pg: z.object({ databaseUrl: z.string(), nodeIds: z.array(z.string()) }),
  users: z.object({ databaseUrl: z.string(), bearers: z.array(bearer) }),
  refresh: z.object({ databaseUrl: z.string(), bearers: z.array(bearer) }),
  bcrypt: z.object({ passwordHash: z.string(), threads: z.int().positive() }),
  bareKey: z.object({ nodes: keys }),
  rememberedKey: z.object({ own: ownKey, nodes: keys }),
  rememberedToken: z.object({ own: ownKey, tokens: keys }),
  askingKey: z.object({ own: ownKey, nodes: keys }),
  es256: z.object({ tokens: keys }),
  signature: z.object({}),
};

export type WorkKind = keyof typeof workTasks;
export type WorkTask<Kind extends WorkKind> = z.output<(typeof workTasks)[Kind]>;
export type Bearer = z.output<typeof bearer>;

/** The reply to the first message. */
export const workReady = z.object({ isReady: z.literal(true) });

/** Every other message says how long to work. */
export const workOrder = z.object({ seconds: z.number().positive() });

/** The reply to an order. */
export const workSample = z.object({
  throughput: z.number(),
  cpu: z.number(),
  p50: z.number().exactOptional(),
  p99: z.number().exactOptional(),
});

/** The input of a thread of bcrypt-thread.ts, and its reply. */
export const bcryptOrder = z.object({ seconds: z.number(), passwordHash: z.string() });
export const bcryptCount = z.object({ count: z.number(), seconds: z.number() });
