// A worker for the tests of the fleet: it listens, or exits at once.
import { createServer } from 'node:http';

if (process.env.CANNOT) process.exit(1);
else createServer().listen(0, '127.0.0.1');
