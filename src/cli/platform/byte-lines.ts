/** One line of a file. */
export interface Line {
  /** From 1. */
  readonly number: number;
  /** Undefined for a line that is too long, or is not UTF-8. */
  readonly text: string | undefined;
  /** Of the file, up to the end of this line. */
  readonly endsAt: number;
}

const LINE_FEED = 0x0a;

/** Splits bytes at line feeds, and holds no more than one line of `maxBytes` at a time: the file may be of any size. */
export async function* splitLines(chunks: AsyncIterable<Buffer>, maxBytes: number): AsyncGenerator<Line> {
  let [number, endsAt] = [0, 0];
  let parts: Buffer[] = [];
  let length = 0;
  const take = (): Line => {
    number += 1;
    endsAt += length + 1;
    const text = length > maxBytes ? undefined : decode(Buffer.concat(parts));
    [parts, length] = [[], 0];
    return { number, text, endsAt };
  };
  const keep = (part: Buffer): void => {
    length += part.length;
    if (length <= maxBytes) parts.push(part);
    else parts = [];
  };
  for await (const chunk of chunks) {
    let start = 0;
    for (let end = chunk.indexOf(LINE_FEED); end !== -1; end = chunk.indexOf(LINE_FEED, start)) {
      keep(chunk.subarray(start, end));
      start = end + 1;
      yield take();
    }
    keep(chunk.subarray(start));
  }
  if (length > 0) yield take();
}

function decode(bytes: Buffer): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    return undefined;
  }
}
