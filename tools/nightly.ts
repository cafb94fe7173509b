/** Set by `.ci/nightly`: a race is repeated more often, and a case is played in all its variants. */
export const IS_NIGHTLY = process.env.NIGHTLY === 'yes';
