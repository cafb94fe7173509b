import { setPriority } from 'node:os';
import bcrypt from 'bcrypt';

/** What a worker thread of the password hasher runs. */

// On Linux this lowers the calling thread alone: requests go before hashes when cores are short.
if (process.platform === 'linux') setPriority(10);

export function hash({ password, cost }: { password: string; cost: number }): string {
  return bcrypt.hashSync(password, cost);
}

export function verify({ password, passwordHash }: { password: string; passwordHash: string }): boolean {
  return bcrypt.compareSync(password, passwordHash);
}
