// A thread that runs only bcrypt, at the priority of the service's hashing threads.
import { setPriority } from 'node:os';
import { parentPort, workerData } from 'node:worker_threads';
import bcrypt from 'bcrypt';
import { bcryptOrder } from './work-messages.js';

const { seconds, passwordHash } = bcryptOrder.parse(workerData);
if (process.platform === 'linux') setPriority(10);
const startedAt = performance.now();
const elapsed = (): number => (performance.now() - startedAt) / 1_000;
let count = 0;
for (; elapsed() < seconds; count += 1) bcrypt.compareSync('a password', passwordHash);
parentPort?.postMessage({ count, seconds: elapsed() });
