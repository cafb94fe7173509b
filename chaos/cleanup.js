/** Undoes everything that a run started or created, in reverse order, also after Ctrl-C or a failure. */
const pending = [];
let isStopping = false;

/** @param {() => unknown} undo must not depend on anything that is started later */
export function defer(undo) {
  pending.push(undo);
}

/** Undoes everything; from now on, starting something throws. */
export async function stopForGood() {
  isStopping = true;
  await cleanUp();
}

/** @throws when the run is being stopped: a process started now would not be stopped */
export function assertNotStopping() {
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
