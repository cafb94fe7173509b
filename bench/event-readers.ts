// Services that read events, in a process that runs only on an idle processor: on a platform they run on machines of their
// own, so that what they do with an answer must take no time from the service. The lowest priority is not enough: such a
// process gives way to a login only when its slice of time ends.
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { EventReader } from './event-reader.js';
import { readerKeys } from './work-messages.js';

execFileSync('chrt', ['--idle', '--all-tasks', '--pid', '0', String(process.pid)]);
// The bench was interrupted.
process.once('disconnect', () => process.exit());
const [keys] = (await once(process, 'message')) as unknown[];
const readers = readerKeys.parse(keys).map((own) => new EventReader(own));
const over = new AbortController();
process.once('message', () => over.abort());
const counts = await Promise.all(readers.map((reader) => reader.follow(over.signal)));
process.send?.(counts.reduce((sum, count) => sum + count, 0));
process.disconnect();
