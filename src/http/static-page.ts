import { Readable } from 'node:stream';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type { Request, Response } from 'express';
import { ProblemException } from '../common/problem.exception.js';
import { problems } from '../common/problems.js';

/** A page in parts of this size: a client that reads slowly is told from one that does not read. */
const SLICE_BYTES = 64 * 1024;
const ACCEPTS_GZIP = /(^|[,\s])gzip\s*(,|$|;\s*q=(1|0\.\d*[1-9]))/i;

type Handler = (request: Request, response: Response) => Promise<void>;

interface Made {
  readonly plain: Buffer;
  readonly compressed: Buffer;
}

/**
 * Serves what is the same for every caller. It is made and compressed once, when the first caller asks for it: no
 * request is worth more work than one lookup, and answers that wait to be read share one buffer.
 */
export function createPageHandler(type: string, make: () => string | Buffer): Handler {
  let made: Promise<Made> | undefined;
  return async (request: Request, response: Response): Promise<void> => {
    refusePreconditions(request);
    made ??= prepare(make);
    const { plain, compressed } = await made.catch((error: unknown) => {
      made = undefined;
      throw error;
    });
    const isCompressed = ACCEPTS_GZIP.test(request.headers['accept-encoding'] ?? '');
    const bytes = isCompressed ? compressed : plain;
    response.setHeader('Content-Type', type);
    response.setHeader('Content-Length', bytes.length);
    response.setHeader('Vary', 'Accept-Encoding');
    if (isCompressed) response.setHeader('Content-Encoding', 'gzip');
    if (request.method === 'HEAD' || bytes.length <= SLICE_BYTES) response.end(bytes);
    else Readable.from(slicesOf(bytes)).pipe(response);
  };
}

/** Pages have no validators and come whole. Ignored, these would be taken for met. */
function refusePreconditions({ headers }: Request): void {
  if (headers['if-match'] ?? headers['if-unmodified-since'] ?? headers.range)
    throw new ProblemException(problems.malformedRequest);
}

async function prepare(make: () => string | Buffer): Promise<Made> {
  const plain = Buffer.from(make());
  return { plain, compressed: await promisify(gzip)(plain) };
}

function* slicesOf(bytes: Buffer): Generator<Buffer> {
  for (let start = 0; start < bytes.length; start += SLICE_BYTES) yield bytes.subarray(start, start + SLICE_BYTES);
}
