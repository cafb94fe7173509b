/** `.ci/nightly` sets it: tests then repeat a race more often, and play a case in all its variants. */
export const IS_NIGHTLY = process.env.NIGHTLY === 'yes';
