// Plain JavaScript, because a worker thread starts from a file that Node.js can run in the tests too.
import { setPriority } from 'node:os';
import bcrypt from 'bcrypt';

// On Linux this lowers the calling thread alone: requests go before hashes when cores are short.
if (process.platform === 'linux') setPriority(10);

/** @param {{ password: string, cost: number }} task */
export function hash({ password, cost }) {
  return bcrypt.hashSync(password, cost);
}

/** @param {{ password: string, passwordHash: string }} task */
export function verify({ password, passwordHash }) {
  return bcrypt.compareSync(password, passwordHash);
}
