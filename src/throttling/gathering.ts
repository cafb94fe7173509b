interface Group<Answer> {
  size: number;
  readonly answer: Promise<Answer>;
}

/**
 * Joins the steps of one key that come while an earlier one is under way: they are taken as one, after it. So a busy
 * address holds one connection to the store and not all of them, each waiting for the same row. A failure is also that
 * of everyone who waited by then: each finding out in turn would take too long.
 */
export class Gathering<Answer> {
  private readonly waiting = new Map<string, Group<Answer>>();
  private readonly underWay = new Map<string, Promise<Answer>>();

  /** @param step takes `size` steps of a key at once */
  constructor(private readonly step: (key: string, size: number) => Promise<Answer>) {}

  /** @returns the answer to all who went together, and how many of them went after this one */
  async join(key: string): Promise<{ answer: Answer; behind: number }> {
    const group = this.waiting.get(key) ?? this.open(key);
    group.size += 1;
    const place = group.size;
    const answer = await group.answer;
    return { answer, behind: group.size - place };
  }

  private open(key: string): Group<Answer> {
    const go = (): Promise<Answer> => {
      this.waiting.delete(key);
      return this.step(key, group.size);
    };
    const fail = (error: unknown): never => {
      this.waiting.delete(key);
      throw error;
    };
    const answer = (this.underWay.get(key) ?? Promise.resolve()).then(go, fail);
    const group: Group<Answer> = { size: 0, answer };
    this.waiting.set(key, group);
    this.underWay.set(key, answer);
    const forget = (): void => {
      if (this.underWay.get(key) === answer) this.underWay.delete(key);
    };
    answer.then(forget, forget);
    return group;
  }
}
