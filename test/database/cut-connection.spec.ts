import { DataSource } from 'typeorm';
import { isDatabaseFailure } from '../../src/database/database-failure.js';
import { eventually } from '../../tools/eventually.js';
import { useApp } from '../support/use-app.js';

describe('a connection that is terminated', () => {
  const app = useApp();

  it('between two statements of a transaction counts as a database outage', async () => {
    const transaction = app.nest.get(DataSource).transaction(async ({ queryRunner }) => {
      const [row] = (await queryRunner!.query('SELECT pg_backend_pid() AS pid')) as { pid: number }[];
      await app.database.query(`SELECT pg_terminate_backend(${row!.pid})`);
      await eventually('the connection is given up', () => queryRunner!.isReleased);
      await queryRunner!.query('SELECT 1');
    });
    const error: unknown = await transaction.catch((reason: unknown) => reason);
    expect(isDatabaseFailure(error)).toBe(true);
  });
});
