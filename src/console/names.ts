/** The names of ids that stand on a page, for operators who may read everything. */
import { Injectable } from '@nestjs/common';
import { isId } from '../foundation/common/ids.js';
import { Database } from '../foundation/database/database.js';

const FIND_NAMES = {
  name: 'console_names',
  text: `SELECT id, name FROM (
      SELECT id, room || '/' || name AS name FROM nodes
      UNION ALL SELECT id, caller || ' → ' || target FROM app_credentials
      UNION ALL SELECT id, name FROM operators
      UNION ALL SELECT id, email FROM users
      UNION ALL SELECT id, name FROM households) AS named
    WHERE id = ANY ($1::uuid[]) AND name IS NOT NULL`,
};

@Injectable()
export class Names {
  constructor(private readonly database: Database) {}

  /** @param subjects those that are no ids, and ids without a name, are left out */
  async findNames(subjects: readonly (string | null)[]): Promise<ReadonlyMap<string, string>> {
    const ids = [...new Set(subjects.filter((subject) => subject !== null && isId(subject)))];
    if (ids.length === 0) return new Map();
    const rows = await this.database.rows<{ id: string; name: string }>(FIND_NAMES, [ids]);
    return new Map(rows.map(({ id, name }) => [id, name]));
  }
}
