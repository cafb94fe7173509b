import { MigrationInterface, QueryRunner } from "typeorm";

export class AddSomething1795428030626 implements MigrationInterface {

    public async up(queryRunner: QueryRunner): Promise<void> {
    }

    public async down(queryRunner: QueryRunner): Promise<void> {
    }

}
