// Households with their members and invitations, and the changes that memberships write into the feed.

import { SqlMigration } from '../sql-migration.js';
import { buildSearchIndexes } from './searches.js';

/**
 * The triggers hold writes to `nodes` and `node_enrolments` until the commit, and the households that live nodes name
 * are made in the same transaction.
 */
export class CreateHouseholds1795651200016 extends SqlMigration {
  readonly create = (schema: string) => `
    CREATE TABLE households (
      id         uuid CONSTRAINT households_pkey PRIMARY KEY,
      name       text,
      created_at timestamptz NOT NULL,
      updated_at timestamptz NOT NULL
    );
    CREATE INDEX households_created_at_idx ON households (created_at, id);
    COMMENT ON TABLE households IS 'whose members may command the nodes in it; a node may name one that is deleted';
    COMMENT ON COLUMN households.name IS 'null: a node or an enrolment named it, and no person did';

    CREATE TABLE household_members (
      household_id uuid        NOT NULL,
      user_id      uuid        NOT NULL,
      role         text        NOT NULL,
      since        timestamptz NOT NULL,
      CONSTRAINT household_members_pkey PRIMARY KEY (household_id, user_id),
      CONSTRAINT household_members_household_id_fkey FOREIGN KEY (household_id)
        REFERENCES households (id) ON DELETE CASCADE,
      CONSTRAINT household_members_user_id_fkey FOREIGN KEY (user_id) REFERENCES users (id) ON DELETE CASCADE,
      CONSTRAINT household_members_role_check CHECK (role IN ('admin', 'member'))
    );
    CREATE INDEX household_members_user_id_idx ON household_members (user_id, household_id) INCLUDE (role);
    CREATE INDEX household_members_admin_idx ON household_members (household_id) WHERE role = 'admin';
    COMMENT ON TABLE household_members IS 'who lives where; a disabled user keeps the place';
    COMMENT ON COLUMN household_members.role IS 'admin, member';
    COMMENT ON COLUMN household_members.since IS 'when the person joined; another role does not change it';

    CREATE TABLE household_invitations (
      id           uuid CONSTRAINT household_invitations_pkey PRIMARY KEY,
      household_id uuid        NOT NULL,
      issued_by    uuid        NOT NULL,
      code_mac     bytea       NOT NULL,
      created_at   timestamptz NOT NULL,
      expires_at   timestamptz NOT NULL,
      cancelled_at timestamptz,
      used_at      timestamptz,
      used_by      uuid,
      CONSTRAINT household_invitations_code_mac_key UNIQUE (code_mac),
      CONSTRAINT household_invitations_household_id_fkey FOREIGN KEY (household_id)
        REFERENCES households (id) ON DELETE CASCADE
    );
    CREATE INDEX household_invitations_household_id_idx ON household_invitations (household_id, id);
    CREATE INDEX household_invitations_issued_by_idx ON household_invitations (issued_by);
    CREATE INDEX household_invitations_expires_at_idx ON household_invitations (expires_at);
    COMMENT ON TABLE household_invitations IS 'codes with which one person each becomes a member';
    COMMENT ON COLUMN household_invitations.issued_by IS 'the admin whose departure cancels it';
    COMMENT ON COLUMN household_invitations.code_mac IS 'HMAC of the code under a key derived from MASTER_KEY';
    COMMENT ON COLUMN household_invitations.used_by IS 'the user who became a member with it';

    ALTER TABLE node_enrolments ADD COLUMN issued_by uuid;
    CREATE INDEX node_enrolments_household_id_idx ON node_enrolments (household_id, id);
    CREATE INDEX node_enrolments_issued_by_idx ON node_enrolments (issued_by) WHERE issued_by IS NOT NULL;
    COMMENT ON COLUMN node_enrolments.issued_by IS
      'the admin of the household whose departure cancels it; null: an operator';

    -- A trigger, so that an older replica makes the household too. It waits for a deletion of the household, which
    -- then counts the new node or is over before the household is made anew.
    CREATE FUNCTION make_named_household() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      PERFORM FROM ${schema}.households WHERE id = NEW.household_id FOR KEY SHARE;
      IF NOT FOUND THEN
        INSERT INTO ${schema}.households (id, created_at, updated_at) VALUES (NEW.household_id, now(), now())
          ON CONFLICT DO NOTHING;
      END IF;
      RETURN NULL;
    END $$;
    CREATE TRIGGER nodes_make_household AFTER INSERT OR UPDATE OF household_id ON nodes FOR EACH ROW
      EXECUTE FUNCTION make_named_household();
    CREATE TRIGGER node_enrolments_make_household AFTER INSERT OR UPDATE OF household_id ON node_enrolments FOR EACH ROW
      EXECUTE FUNCTION make_named_household();
    INSERT INTO households (id, created_at, updated_at)
      SELECT DISTINCT household_id, now(), now() FROM (
        SELECT household_id FROM nodes WHERE revoked_at IS NULL
        UNION ALL SELECT household_id FROM node_enrolments WHERE used_at IS NULL AND cancelled_at IS NULL) AS named;

    -- A membership is a part of the answer about its user, so its change is a change of that user. Found by polling,
    -- as ended sessions are: NOTIFY takes a lock of the whole cluster at each commit.
    CREATE FUNCTION record_membership_change() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
      max_changes CONSTANT integer := 1000;
      recorded integer := COALESCE(NULLIF(current_setting('platform_auth.changes_recorded', true), ''), '0')::integer;
      changed uuid;
    BEGIN
      IF TG_OP = 'UPDATE' AND NEW.user_id <> OLD.user_id THEN
        RAISE EXCEPTION 'A membership does not change its user: delete it, and insert another one';
      END IF;
      IF recorded <= max_changes THEN
        IF TG_LEVEL = 'ROW' AND recorded < max_changes THEN
          changed := CASE WHEN TG_OP = 'DELETE' THEN OLD.user_id ELSE NEW.user_id END;
        END IF;
        INSERT INTO ${schema}.credential_changes (kind, credential_id) VALUES ('user', changed);
        PERFORM set_config('platform_auth.changes_recorded', (recorded + 1)::text, true);
      END IF;
      RETURN NULL;
    END $$;
    CREATE TRIGGER household_members_record_insert AFTER INSERT ON household_members FOR EACH ROW
      EXECUTE FUNCTION record_membership_change();
    CREATE TRIGGER household_members_record_update AFTER UPDATE ON household_members FOR EACH ROW
      EXECUTE FUNCTION record_membership_change();
    CREATE TRIGGER household_members_record_delete AFTER DELETE ON household_members FOR EACH ROW
      EXECUTE FUNCTION record_membership_change();
    CREATE TRIGGER household_members_record_truncate AFTER TRUNCATE ON household_members
      EXECUTE FUNCTION record_membership_change();
    ALTER TABLE household_members
      ENABLE ALWAYS TRIGGER household_members_record_insert,
      ENABLE ALWAYS TRIGGER household_members_record_update,
      ENABLE ALWAYS TRIGGER household_members_record_delete,
      ENABLE ALWAYS TRIGGER household_members_record_truncate;
    ${buildSearchIndexes([{ name: 'households_name_search_idx', on: 'households', text: 'lower(name)' }])}
  `;

  readonly drop = `
    DROP FUNCTION make_named_household() CASCADE;
    DROP TABLE household_invitations, household_members, households;
    DROP FUNCTION record_membership_change();
    DROP INDEX node_enrolments_household_id_idx;
    ALTER TABLE node_enrolments DROP COLUMN issued_by;
  `;
}
