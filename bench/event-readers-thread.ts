// Services that read events, in a thread of the lowest priority: on a platform they run on machines of their own, so that
// what they do with an answer must take no time from the service.
import { setPriority } from 'node:os';
import { parentPort, workerData } from 'node:worker_threads';
import { EventReader } from './event-reader.js';
import { readerKeys } from './work-messages.js';

const LOWEST_PRIORITY = 19;

// Of this thread on Linux; elsewhere it would be that of the whole process.
if (process.platform === 'linux') setPriority(LOWEST_PRIORITY);
const readers = readerKeys.parse(workerData).map((own) => new EventReader(own));
const over = new AbortController();
parentPort?.once('message', () => over.abort());
const counts = await Promise.all(readers.map((reader) => reader.follow(over.signal)));
parentPort?.postMessage(counts.reduce((sum, count) => sum + count, 0));
