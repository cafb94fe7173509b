import type { MigrationInterface, QueryRunner } from 'typeorm';

const TRIGGERS = [
  `signing_keys_record_insert AFTER INSERT ON signing_keys FOR EACH ROW`,
  // The encryption of a private key is not a change of the key.
  `signing_keys_record_update AFTER UPDATE ON signing_keys FOR EACH ROW
     WHEN ((OLD.id, OLD.kid, OLD.state, OLD.retired_at) IS DISTINCT FROM (NEW.id, NEW.kid, NEW.state, NEW.retired_at))`,
  `signing_keys_record_delete AFTER DELETE ON signing_keys FOR EACH ROW`,
  `signing_keys_record_truncate AFTER TRUNCATE ON signing_keys FOR EACH STATEMENT`,
];

/** The keys that sign access tokens under ES256 (docs/decisions/0046), and when each algorithm was last used. */
export class CreateSigningKeys1763684300000 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    // Qualified: a restore and the apply worker of logical replication run triggers with an empty search path.
    const [row] = (await runner.query('SELECT quote_ident(current_schema()) AS schema')) as { schema: string }[];
    await runner.query(`
      CREATE TABLE signing_algorithms (
        algorithm      text        NOT NULL,
        last_signed_at timestamptz,
        CONSTRAINT signing_algorithms_pkey PRIMARY KEY (algorithm)
      );
      COMMENT ON COLUMN signing_algorithms.last_signed_at IS 'to the minute; its tokens are accepted for one token life after it';
      -- A version before this one signed with HS256 and did not record it.
      INSERT INTO signing_algorithms (algorithm, last_signed_at) VALUES
        ('HS256', (SELECT now() WHERE EXISTS (SELECT FROM sessions))), ('ES256', NULL);

      CREATE TABLE signing_keys (
        id                    uuid        NOT NULL,
        kid                   text        NOT NULL,
        algorithm             text        NOT NULL,
        state                 text        NOT NULL,
        encrypted_private_key bytea,
        created_at            timestamptz NOT NULL,
        activated_at          timestamptz,
        retired_at            timestamptz,
        revoked_at            timestamptz,
        CONSTRAINT signing_keys_pkey PRIMARY KEY (id),
        CONSTRAINT signing_keys_kid_key UNIQUE (kid),
        CONSTRAINT signing_keys_algorithm_fkey FOREIGN KEY (algorithm) REFERENCES signing_algorithms (algorithm),
        CONSTRAINT signing_keys_state_check CHECK (state IN ('next', 'active', 'retired', 'revoked'))
      );
      CREATE UNIQUE INDEX signing_keys_state_key ON signing_keys (algorithm, state) WHERE state IN ('next', 'active');
      COMMENT ON TABLE signing_keys IS 'keys are not deleted: a few rows a year';
      COMMENT ON COLUMN signing_keys.kid IS 'thumbprint of the public key (RFC 7638)';
      COMMENT ON COLUMN signing_keys.encrypted_private_key IS
        'PKCS #8 under AES-256-GCM with a key derived from SECRET_KEY; null once no token needs it';

      CREATE FUNCTION record_signing_key_change() RETURNS trigger LANGUAGE plpgsql AS $$
      DECLARE
        changed uuid;
      BEGIN
        -- Without an id: replicas and verifiers evict everything that they accepted.
        IF TG_OP = 'INSERT' OR (TG_OP = 'UPDATE' AND NEW.state <> 'revoked') THEN
          changed := NEW.id;
        END IF;
        INSERT INTO ${row?.schema ?? 'public'}.credential_changes (kind, credential_id) VALUES ('signing_key', changed);
        NOTIFY credential_changes;
        RETURN NULL;
      END $$;
      COMMENT ON COLUMN credential_changes.kind IS 'node, app, session, user, signing_key; null: anything may have changed';
    `);
    for (const trigger of TRIGGERS) {
      const [name = ''] = trigger.split(' ');
      await runner.query(`CREATE TRIGGER ${trigger} EXECUTE FUNCTION record_signing_key_change();
        ALTER TABLE signing_keys ENABLE ALWAYS TRIGGER ${name}`);
    }
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query(`
      DROP TABLE signing_keys;
      DROP FUNCTION record_signing_key_change();
      DROP TABLE signing_algorithms;
      DELETE FROM credential_changes WHERE kind = 'signing_key';
      COMMENT ON COLUMN credential_changes.kind IS 'node, app, session, user; null: anything may have changed';
    `);
  }
}
