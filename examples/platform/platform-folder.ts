import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename } from 'node:path';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { parse } from 'yaml';
import { z } from 'zod';
import { findFreePort } from '../../src/foundation/embedded-postgres/embedded-postgres.js';
import type { Cleanup } from '../../tools/cleanup.js';
import { EXAMPLE, ExampleError, toPath } from './paths.js';

const mapSchema = z.object({ services: z.record(z.string(), z.object({ url: z.string() })) });

export interface Platform {
  readonly cleanup: Cleanup;
  /** Addresses by the name of the service. */
  readonly urls: Readonly<Record<string, string>>;
  readonly mapPath: string;
  /** Keys, files of services and of the node; relative to the root of the project. Removed at the end. */
  readonly folder: string;
}

export const portOf = (url = ''): number => Number(new URL(url).port);

/** Each start makes a folder of its own, and removes that one. What a killed start left behind stays. */
export async function prepareFolder(cleanup: Cleanup, onFreePorts: boolean): Promise<Platform> {
  let mapPath = `${EXAMPLE}/platform.yaml`;
  let text = readFileSync(toPath(mapPath), 'utf8');
  if (onFreePorts)
    for (const [place] of text.matchAll(/127\.0\.0\.1:\d+/g))
      text = text.replace(place, `127.0.0.1:${await findFreePort()}`);
  const { services } = mapSchema.parse(parse(text));
  const urls = Object.fromEntries(Object.entries(services).map(([name, { url }]) => [name, url]));
  for (const url of Object.values(urls)) await refuseTakenPort(portOf(url));
  const run = `${EXAMPLE}/.run`;
  mkdirSync(toPath(run), { recursive: true });
  const made = mkdtempSync(`${toPath(run)}/`);
  cleanup.defer(() => rmSync(made, { recursive: true, force: true }));
  const folder = `${run}/${basename(made)}`;
  if (onFreePorts) {
    mapPath = `${folder}/platform.yaml`;
    writeFileSync(toPath(mapPath), text);
  }
  return { cleanup, urls, mapPath, folder };
}

async function refuseTakenPort(port: number): Promise<void> {
  const probe = createServer();
  try {
    await once(probe.listen(port, '127.0.0.1'), 'listening');
  } catch (error) {
    throw new ExampleError(
      `Port ${port} cannot be used: ${String(error)}\nStop what listens there, or run: npm run example -- --free-ports`,
    );
  }
  probe.close();
  await once(probe, 'close');
}
