/** What a run may leave behind: the engine gives memory back when it likes, not when it could. */
export const MARGIN_MEGABYTES = 64;
const MOST_WAITS = 10;

/**
 * Waits until the process holds no more than before and a margin.
 * @param settled waits a little and returns what it holds
 */
export async function judgeMemory(before, settled) {
  let after = await settled();
  for (let i = 1; i < MOST_WAITS && after > before + MARGIN_MEGABYTES; i += 1) after = await settled();
  const wrong =
    before !== undefined && after > before + MARGIN_MEGABYTES
      ? `${before} MB after the warm-up, ${after} MB after the run and a rest: more than ${MARGIN_MEGABYTES} MB stayed`
      : undefined;
  return { before, after, wrong };
}
