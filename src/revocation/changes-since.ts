import { MAX_CHANGES } from '../../packages/lease/src/change-feed.js';
import type { Statement } from '../database/database.js';

/**
 * Transaction ids can be compared only within one epoch: a promotion, a restart and a crash may assign them anew, and a
 * restored database has its own. The crash of one backend keeps the postmaster's start time, and resets the statistics.
 */
const EPOCH = `encode(sha256(convert_to(concat_ws('/', system_identifier, timeline_id,
  extract(epoch FROM pg_postmaster_start_time()), extract(epoch FROM stats_reset),
  (SELECT oid FROM pg_database WHERE datname = current_database()), 'credential_changes'::regclass::oid), 'UTF8')), 'hex')`;

/**
 * One statement, so that epoch, snapshot, purge mark and changes are consistent. Two branches, because the planner uses a
 * sequential scan for an OR; ordered, so that each is an index scan that stops at its limit. A dump that is restored into
 * another cluster brings transaction ids that this one has not assigned: they are ignored.
 */
export const CHANGES_SINCE: Statement = {
  name: 'credential_changes_since',
  text: `SELECT ${EPOCH} AS epoch, pg_current_snapshot()::text AS snapshot,
      COALESCE((SELECT purged::text FROM credential_change_purges
                WHERE purged < pg_snapshot_xmax(pg_current_snapshot())), '0') AS purged,
      (SELECT COALESCE(json_agg(json_build_object('kind', kind, 'id', credential_id, 'xid', xid::text)), '[]') FROM (
        (SELECT kind, credential_id, xid FROM credential_changes
         WHERE xid >= pg_snapshot_xmax($1::pg_snapshot) AND xid < pg_snapshot_xmax(pg_current_snapshot())
         ORDER BY xid LIMIT ${MAX_CHANGES + 1})
        UNION ALL
        (SELECT kind, credential_id, xid FROM credential_changes
         WHERE xid = ANY (ARRAY(SELECT pg_snapshot_xip($1::pg_snapshot))) ORDER BY xid LIMIT ${MAX_CHANGES + 1})
      ) AS changed) AS changes
    FROM pg_control_system(), pg_control_checkpoint(), pg_stat_wal`,
};
