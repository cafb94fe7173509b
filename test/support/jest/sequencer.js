import TestSequencer from '@jest/test-sequencer';

/** Small files with slow tests. */
const SLOW = /[\\/]lease[\\/]test[\\/](?:model|worlds)\.spec\.js$/;

/**
 * Runs slow files first. Without the times of an earlier run Jest begins with the largest files, and waits at the end for
 * a small one that is slow.
 */
export default class SlowFirstSequencer extends TestSequencer {
  sort(tests) {
    const [slow, others] = [tests.filter(isSlow), tests.filter((test) => !isSlow(test))];
    return [...super.sort(slow), ...super.sort(others)];
  }
}

function isSlow({ path }) {
  return SLOW.test(path);
}
