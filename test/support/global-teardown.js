/** Stops what the setup started, and removes it. */
export default async function teardown() {
  await globalThis.embeddedPostgres?.remove();
}
