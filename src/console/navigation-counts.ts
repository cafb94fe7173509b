import { Injectable } from '@nestjs/common';
import type { OperatorScope } from '../foundation/common/names.js';
import { KEY_KIND_NAMES, KEY_KINDS } from '../foundation/common/key-kinds.js';
import { Database } from '../foundation/database/database.js';
import { cacheQuery } from '../foundation/metrics/metrics-registry.js';
import { isLiveAt } from '../domain/keys/key-record.js';
import { getScope } from '../domain/status/finding.js';
import { Findings } from '../domain/status/findings.js';

/** A count reads at most this many rows. */
export const MAX_COUNTED = 10_000;

const countUpTo = (name: string, rows: string): string =>
  `(SELECT count(*)::integer FROM (SELECT FROM ${rows} LIMIT ${MAX_COUNTED}) AS counted) AS "${name}"`;
const COUNT = {
  name: 'console_count',
  text: `SELECT ${[
    countUpTo('/console/users', 'users'),
    countUpTo('/console/households', 'households'),
    ...KEY_KIND_NAMES.map((kind) => {
      const { path, table } = KEY_KINDS[kind];
      return countUpTo(`/console${path}`, `${table} WHERE ${isLiveAt('now()')}`);
    }),
  ].join(', ')}`,
};

/** The numbers in the menu: read twice a minute at most, and only while an operator uses the console. */
@Injectable()
export class NavigationCounts {
  private readonly countRows = cacheQuery(() =>
    this.database.row<Readonly<Record<string, number>>>(COUNT, []).then((row) => row ?? {}),
  );
  private readonly report = cacheQuery(() => this.findings.report(() => true));

  constructor(
    private readonly database: Database,
    private readonly findings: Findings,
  ) {}

  /** @returns the number for the page of each address; a page without a number, or with an unknown one, is left out */
  async readCounts(mayRead: (scope: OperatorScope) => boolean): Promise<Readonly<Record<string, number>>> {
    const [rows, report] = await Promise.all([this.countRows(), this.report()]);
    const findings = report?.findings.filter((finding) => mayRead(getScope(finding))).length;
    return { ...rows, ...(findings && { '/console': findings }) };
  }
}
