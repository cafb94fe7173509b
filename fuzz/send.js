import { Agent, request as httpRequest } from 'node:http';
import { bomb, COMPRESS } from './bodies.js';
import { spoiled } from './credentials.js';

const TIMEOUT_MS = 20_000;

/** Sends over keep-alive connections, one for each concurrent caller. */
export class Client {
  #agent = new Agent({ keepAlive: true });

  constructor({ port }) {
    this.port = port;
  }

  /**
   * @param wire `{ method, target, headers: [name, value][], body: Buffer | undefined, chunked }`
   * @returns `{ status, headers, body }`, or `{ failure }` without a response
   */
  send({ method, target, headers, body, chunked }) {
    const framing = framingOf(method, body, chunked);
    const flat = [['Host', `127.0.0.1:${this.port}`], ...headers, ...framing].flat();
    return new Promise((resolve) => {
      const options = { port: this.port, host: '127.0.0.1', method, path: target, headers: flat, agent: this.#agent };
      const outgoing = httpRequest({ ...options, insecureHTTPParser: false }, (answer) => {
        const chunks = [];
        answer.on('data', (chunk) => chunks.push(chunk));
        answer.on('error', (error) => resolve({ failure: `the answer broke off: ${error.code}` }));
        answer.on('end', () => {
          clearTimeout(timer);
          resolve({ status: answer.statusCode, headers: answer.headers, body: Buffer.concat(chunks).toString() });
        });
      });
      const timer = setTimeout(
        () => outgoing.destroy(Object.assign(new Error(), { code: 'no answer in time' })),
        TIMEOUT_MS,
      );
      outgoing.on('error', (error) => {
        clearTimeout(timer);
        resolve({ failure: `no answer: ${error.code ?? error.message}`, answered: outgoing.res !== null });
      });
      if (chunked && body) {
        outgoing.write(body.subarray(0, body.length >> 1));
        outgoing.end(body.subarray(body.length >> 1));
      } else outgoing.end(body);
    });
  }

  /** A regular JSON call, for minting credentials. */
  async json(method, path, { headers, body }) {
    const type = body ? [['Content-Type', 'application/json']] : [];
    const bytes = body && Buffer.from(JSON.stringify(body));
    const sent = [...Object.entries(headers), ...type];
    const answer = await this.send({ method, target: path, headers: sent, body: bytes, chunked: false });
    if (answer.failure) throw new Error(`${method} ${path}: ${answer.failure}`);
    return { status: answer.status, json: answer.body ? JSON.parse(answer.body) : undefined };
  }

  close() {
    this.#agent.destroy();
  }
}

/** Resolves when a socket is closed, whether by an error or not. */
export async function closed(socket) {
  if (!socket.closed) await new Promise((resolve) => socket.once('close', resolve));
}

function framingOf(method, body, chunked) {
  if (body) return [chunked ? ['Transfer-Encoding', 'chunked'] : ['Content-Length', String(body.length)]];
  return /^(GET|HEAD)$/.test(method) ? [] : [['Content-Length', '0']];
}

/** @returns a generated request in wire form, with its symbols replaced, and the kinds of credentials that it names */
export async function onTheWire(generated, actors) {
  const { method, path, query, credentials, body, media, extra } = generated;
  const target = query ? `${path}?${query}` : path;
  const text = body?.text ?? '';
  const { fill, kinds } = await actors.valuesFor(target, text, ...credentials.headers.flat());
  const live = credentials.headers.map(([name, value]) => [name, fill(value)]);
  const headers = [...(credentials.spoil ? spoiled(live, credentials.spoil) : live), ...extra];
  const plain = plainBytes(body, fill);
  const compress = plain && body.megabytes === undefined ? media.compress : undefined;
  const encoding = media.encoding ?? body?.encoding ?? compress;
  if (plain && media.type !== undefined) headers.push(['Content-Type', media.type]);
  if (plain && encoding !== undefined) headers.push(['Content-Encoding', encoding]);
  const bytes = compress ? COMPRESS[compress](plain) : plain;
  return {
    wire: { method, target: fill(target), headers, body: bytes, chunked: media.chunked },
    /** The body before compression, when it is text. */
    text: body?.text === undefined ? undefined : plain?.toString(),
    kinds,
  };
}

function plainBytes(body, fill) {
  if (body === undefined) return undefined;
  if (body.hex !== undefined) return Buffer.from(body.hex, 'hex');
  if (body.megabytes !== undefined) return bomb(body.encoding, body.megabytes);
  return Buffer.from(fill(body.text));
}

const quoted = (text) => `'${text.replaceAll("'", `'\\''`)}'`;

/** @returns a shell command that sends the request */
export function asCurl(port, { method, target, headers, body, chunked }) {
  const parts = ['curl', '-i', '--path-as-is', '-X', method];
  for (const [name, value] of headers) parts.push('-H', quoted(value === '' ? `${name};` : `${name}: ${value}`));
  if (chunked && body) parts.push('-H', quoted('Transfer-Encoding: chunked'));
  parts.push(quoted(`http://127.0.0.1:${port}${target}`));
  if (!body) return parts.join(' ');
  if (body.length > 20_000) return `${parts.join(' ')} --data-binary @- # a body of ${body.length} bytes: run the seed`;
  const readable = /^[\x20-\x7e]*$/.test(body.toString('latin1'));
  if (readable) return `${parts.join(' ')} --data-binary ${quoted(body.toString())}`;
  return `base64 -d <<<${body.toString('base64')} | ${parts.join(' ')} --data-binary @-`;
}
