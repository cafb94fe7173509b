// A worker for the tests of the fleet. It listens, or reports the text in CANNOT as its start failure.
import { createServer } from 'node:http';

const { CANNOT } = process.env;
if (CANNOT) process.send?.({ startFailed: CANNOT }, undefined, undefined, () => process.exit(1));
else createServer().listen(0, '127.0.0.1');
