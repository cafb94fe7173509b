/** The values of a metric's labels, in the order of their names. */
export type LabelValues = readonly (string | number)[];

interface Branch {
  count: number;
  readonly branches: Map<string | number, Branch>;
}

/**
 * Counts by labels in nested maps. Finding a count takes no new object and no joined key, which the counters of
 * prom-client make at every step: they are filled from here when somebody looks.
 */
export class Tally<Labels extends LabelValues> {
  private readonly root: Branch = { count: 0, branches: new Map() };

  add(...labels: Labels): void {
    this.leaf(labels).count += 1;
  }

  /** Shows a count of 0 from the start, so that its first rise is seen as one. */
  expect(...labels: Labels): void {
    this.leaf(labels);
  }

  *entries(): Generator<readonly [LabelValues, number]> {
    yield* leaves(this.root, []);
  }

  private leaf(labels: Labels): Branch {
    let branch = this.root;
    for (const label of labels) {
      let next = branch.branches.get(label);
      if (!next) branch.branches.set(label, (next = { count: 0, branches: new Map() }));
      branch = next;
    }
    return branch;
  }
}

function* leaves({ count, branches }: Branch, path: LabelValues): Generator<readonly [LabelValues, number]> {
  if (branches.size === 0 && path.length > 0) yield [path, count];
  for (const [label, branch] of branches) yield* leaves(branch, [...path, label]);
}
