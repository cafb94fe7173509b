import { readFileSync } from 'node:fs';
import { fromRoot } from '../support/from-root.js';

/** A shell block of a page. */
export interface Block {
  /** The page and the line of the block. */
  readonly name: string;
  readonly text: string;
  /** Why it cannot run here, as the page says in the paragraph before it. */
  readonly reason: string | undefined;
}

const BLOCK = /^( *)```sh\n(.*?)^ *```$/gms;
const NOT_RUN = /\*Not run by the tests: (.+)\*\s*$/;

export function readBlocks(page: string): Block[] {
  const text = readFileSync(fromRoot(`docs/operations/${page}.md`), 'utf8');
  return [...text.matchAll(BLOCK)].map(({ 1: indent = '', 2: code = '', index }) => {
    const before = text.slice(0, index);
    return {
      name: `${page}.md:${before.split('\n').length}`,
      text: code.replaceAll(new RegExp(`^${indent}`, 'gm'), ''),
      reason: NOT_RUN.exec(before)?.[1],
    };
  });
}
