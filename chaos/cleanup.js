/** What was started is stopped, and what was made is removed, in the reverse order: also after Ctrl-C or a failure. */
const pending = [];

/** @param {() => unknown} undo must not depend on anything that was started later */
export function later(undo) {
  pending.push(undo);
}

export async function cleanUp() {
  while (pending.length > 0) {
    try {
      await pending.pop()();
    } catch (error) {
      console.error(`While cleaning up: ${error.message}`);
    }
  }
}
