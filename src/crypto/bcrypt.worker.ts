import { setPriority } from 'node:os';
import bcrypt from 'bcrypt';

/** Runs in the worker threads of the password hasher. */

// On Linux this lowers the priority of the calling thread only: requests precede hashes when all cores are busy.
if (process.platform === 'linux') setPriority(10);

export function hash({ password, cost }: { password: string; cost: number }): string {
  return bcrypt.hashSync(password, cost);
}

export function verify({ password, passwordHash }: { password: string; passwordHash: string }): boolean {
  return bcrypt.compareSync(password, passwordHash);
}
