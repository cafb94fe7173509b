import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';

/** The clock of PostgreSQL, which all replicas share. */
@Injectable()
export class DatabaseClock {
  constructor(private readonly dataSource: DataSource) {}

  async now(): Promise<Date> {
    const [row] = await this.dataSource.query<{ now: Date }[]>('SELECT clock_timestamp() AS now');
    if (!row) throw new Error('PostgreSQL returned no time');
    return row.now;
  }
}
