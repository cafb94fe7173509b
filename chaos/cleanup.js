/** What was started is stopped, and what was made is removed, in the reverse order: also after Ctrl-C or a failure. */
const pending = [];
let isStopping = false;

/** @param {() => unknown} undo must not depend on anything that was started later */
export function later(undo) {
  pending.push(undo);
}

/** From here on nothing may be started any more. */
export async function stopForGood() {
  isStopping = true;
  await cleanUp();
}

/** @throws when everything is being stopped: nobody would stop what is started now */
export function mayStart() {
  if (isStopping) throw new Error('interrupted');
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
