/** Makes this many calls at the same time. */
export async function atOnce<Answer>(count: number, call: (index: number) => PromiseLike<Answer>): Promise<Answer[]> {
  return Promise.all(Array.from({ length: count }, (_, index) => call(index)));
}
