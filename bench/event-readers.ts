// Services that read events, in a process of the lowest priority: on a platform they run on machines of their own, so
// that what they do with an answer must take no time from the service.
import { once } from 'node:events';
import { setPriority } from 'node:os';
import { EventReader } from './event-reader.js';
import { readerKeys } from './work-messages.js';

const LOWEST_PRIORITY = 19;

setPriority(LOWEST_PRIORITY);
// The bench was interrupted.
process.once('disconnect', () => process.exit());
const [keys] = (await once(process, 'message')) as unknown[];
const readers = readerKeys.parse(keys).map((own) => new EventReader(own));
const over = new AbortController();
process.once('message', () => over.abort());
const counts = await Promise.all(readers.map((reader) => reader.follow(over.signal)));
process.send?.(counts.reduce((sum, count) => sum + count, 0));
process.disconnect();
