import type { MigrationInterface, QueryRunner } from 'typeorm';

/** A constant default, so the table is not rewritten. Requests of old replicas share the network ''. */
export class AddMailNetworks1763858600000 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      ALTER TABLE mail_requests ADD COLUMN networks text[] NOT NULL DEFAULT '{""}';
      COMMENT ON COLUMN mail_requests.networks IS 'IPv4 addresses and IPv6 /48 that asked for the mail, the newest first';
    `);
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('ALTER TABLE mail_requests DROP COLUMN networks');
  }
}
