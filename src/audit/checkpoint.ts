const WORD = 'platform-auth-audit-checkpoint/1';
const LINE = new RegExp(`^${WORD} ([1-9]\\d{0,14}) \\S+ ([0-9a-f]{64})$`);

/** The head of the chain at one moment. Its HMAC covers every earlier seal. */
export interface Checkpoint {
  readonly number: number;
  readonly at: string;
  readonly mac: Buffer;
}

/** @returns one line without secrets */
export function formatCheckpoint({ number, at, mac }: Checkpoint): string {
  return `${WORD} ${number} ${at} ${mac.toString('hex')}`;
}

export function isCheckpoint(line: string): boolean {
  return LINE.test(line.trim());
}

/** @throws {Error} when the line is not one of {@link formatCheckpoint} */
export function parseCheckpoint(line: string): Pick<Checkpoint, 'number' | 'mac'> {
  const [, number, mac] = LINE.exec(line.trim()) ?? [];
  if (number === undefined || mac === undefined) throw new Error('It is not a line of "audit checkpoint".');
  return { number: Number(number), mac: Buffer.from(mac, 'hex') };
}
