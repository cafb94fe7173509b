import { Readable } from 'node:stream';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type { Request, Response } from 'express';
import { ProblemException, problems } from '../problems/problems.js';

/** Pages are written in slices of this size, so that a slow client can be told from one that does not read. */
const SLICE_BYTES = 64 * 1024;
const ACCEPTS_GZIP = /(^|[,\s])gzip\s*(,|$|;\s*q=(1|0\.\d*[1-9]))/i;

type Handler = (request: Request, response: Response) => Promise<void>;

interface PageContent {
  readonly plain: Buffer;
  readonly compressed: Buffer;
}

/**
 * Serves content that is the same for every caller. The first request creates and compresses it; later ones share the
 * buffer. A flood of requests costs one lookup each, and slow clients hold no copies.
 */
export function createPageHandler(type: string, make: () => string | Buffer): Handler {
  let content: Promise<PageContent> | undefined;
  return async (request: Request, response: Response): Promise<void> => {
    refusePreconditions(request);
    content ??= prepare(make);
    const { plain, compressed } = await content.catch((error: unknown) => {
      content = undefined;
      throw error;
    });
    const isCompressed = ACCEPTS_GZIP.test(request.headers['accept-encoding'] ?? '');
    const bytes = isCompressed ? compressed : plain;
    response.setHeader('Content-Type', type);
    response.setHeader('Content-Length', bytes.length);
    response.vary('Accept-Encoding');
    if (isCompressed) response.setHeader('Content-Encoding', 'gzip');
    if (request.method === 'HEAD' || bytes.length <= SLICE_BYTES) response.end(bytes);
    else Readable.from(slice(bytes)).pipe(response);
  };
}

/** Refuses conditional and range requests: a client would read a plain 200 as "the condition holds". */
function refusePreconditions({ headers }: Request): void {
  if (headers['if-match'] ?? headers['if-unmodified-since'] ?? headers.range)
    throw new ProblemException(problems.malformedRequest);
}

async function prepare(make: () => string | Buffer): Promise<PageContent> {
  const plain = Buffer.from(make());
  return { plain, compressed: await promisify(gzip)(plain) };
}

function* slice(bytes: Buffer): Generator<Buffer> {
  for (let start = 0; start < bytes.length; start += SLICE_BYTES) yield bytes.subarray(start, start + SLICE_BYTES);
}
