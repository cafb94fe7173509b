// The shell blocks of a page. A page is pasted from top to bottom, into one shell.
import { readFileSync } from 'node:fs';
import { fromRoot } from '../support/from-root.js';

/** A shell block of a page. */
export interface Block {
  /** The page and the line of the block. */
  readonly name: string;
  readonly text: string;
  /** Why it cannot run here, as the page says in the paragraph before it. */
  readonly reason: string | undefined;
  /** Whether it goes on until it is stopped, and so has a terminal of its own (`sh own-terminal`). */
  readonly hasOwnTerminal: boolean;
  /** The exit code of its last command, if it is meant to fail (`sh exit-1`). */
  readonly exitCode: number;
}

const BLOCK = /^( *)```sh((?: own-terminal| exit-\d+)?)\n(.*?)^ *```$/gms;
const NOT_RUN = /\*Not run by the tests: (.+)\*\s*$/;

/** @param page its path from the root of the project */
export function readBlocks(page: string): Block[] {
  const text = readFileSync(fromRoot(page), 'utf8');
  return [...text.matchAll(BLOCK)].map(({ 1: indent = '', 2: word = '', 3: code = '', index }) => {
    const before = text.slice(0, index);
    return {
      name: `${page}:${before.split('\n').length}`,
      text: code.replaceAll(new RegExp(`^${indent}`, 'gm'), ''),
      reason: NOT_RUN.exec(before)?.[1],
      hasOwnTerminal: word === ' own-terminal',
      exitCode: Number(/\d+/.exec(word)?.[0] ?? 0),
    };
  });
}
