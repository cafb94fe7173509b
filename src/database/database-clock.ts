import { Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';

/** The clock of PostgreSQL, which all replicas share. */
@Injectable()
export class DatabaseClock {
  constructor(private readonly dataSource: DataSource) {}

  /** @param transaction asks on its connection; otherwise on one of the pool */
  async now(transaction?: EntityManager): Promise<Date> {
    const [row] = await (transaction ?? this.dataSource).query<{ now: Date }[]>('SELECT clock_timestamp() AS now');
    if (!row) throw new Error('PostgreSQL returned no time');
    return row.now;
  }
}
