/**
 * Lets the callers of one key go one by one. A failure is also that of everyone who stood in line by then: when what
 * they wait for cannot be had, each of them finding out in turn would take for ever.
 */
export class Line {
  private readonly tails = new Map<string, Promise<Failure | undefined>>();

  async inTurn<T>(key: string, task: () => Promise<T>, isFailureOfAll: (error: unknown) => boolean): Promise<T> {
    const before = this.tails.get(key) ?? Promise.resolve(undefined);
    const turn = before.then((failure) => {
      if (failure) throw failure.error;
      return task();
    });
    const tail = turn.then(
      () => undefined,
      (error: unknown) => (isFailureOfAll(error) ? { error } : undefined),
    );
    this.tails.set(key, tail);
    try {
      return await turn;
    } finally {
      if (this.tails.get(key) === tail) this.tails.delete(key);
    }
  }
}

interface Failure {
  readonly error: unknown;
}
