/** The names of the ids on a page, and the suggestions of its fields. */
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

/** Reads few rows: the live app credentials, one for each pair of services. */
const FIND_SUGGESTIONS = {
  name: 'console_suggestions',
  text: `WITH live AS MATERIALIZED (SELECT caller, target, scopes FROM app_credentials WHERE revoked_at IS NULL)
    SELECT ARRAY(SELECT caller FROM live UNION SELECT target FROM live ORDER BY 1 LIMIT 50) AS services,
      ARRAY(SELECT DISTINCT unnest(scopes) FROM live ORDER BY 1 LIMIT 50) AS scopes`,
};

export type Suggestions = Readonly<Record<'services' | 'scopes', readonly string[]>>;

@Injectable()
export class Names {
  constructor(private readonly database: Database) {}

  /** @returns the names by id; texts that are not ids, and ids without a name, are left out */
  async findNames(subjects: readonly (string | null)[]): Promise<ReadonlyMap<string, string>> {
    const ids = [...new Set(subjects.filter((subject) => subject !== null && isId(subject)))];
    if (ids.length === 0) return new Map();
    const rows = await this.database.rows<{ id: string; name: string }>(FIND_NAMES, [ids]);
    return new Map(rows.map(({ id, name }) => [id, name]));
  }

  /** @returns the services and the scopes of live app credentials, the first 50 of each */
  async findSuggestions(): Promise<Suggestions> {
    return (await this.database.row<Suggestions>(FIND_SUGGESTIONS, [])) ?? { services: [], scopes: [] };
  }
}
