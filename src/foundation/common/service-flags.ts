/** The flags of Node.js with which the service runs: V8 rejects the code that the build compiled under other ones. */
export const SERVICE_FLAGS = [
  '--max-semi-space-size=64',
  '--no-allocation-site-pretenuring',
  '--heap-growing-percent=200',
];
