//! Settling: a server that was started again or promoted may have lost groups, which the hosts append again. Until they have, none appends
//! other groups, and none answers that something is missing.
//!
//! Such a server has another epoch: the start of its process, its timeline, and the table of the cluster. The first host to see it notes when the hosts were last seen
//! before. A storage that is replicated below PostgreSQL loses nothing, so it has no epochs.

use crate::{PostgresSettings, SharedLogDurability, failed};
use postgres::types::Type;
use postgres::{Client, Error};
use std::thread::sleep;
use std::time::Duration;
use store_log::SharedLogError;

const NOTE: &str = "
UPDATE oracled_cluster SET epoch = present.epoch, epoch_since = clock_timestamp(),
    epoch_seen = (SELECT max(seen) FROM oracled_host)
FROM (
    SELECT concat_ws(' ', pg_postmaster_start_time(), left(pg_walfile_name(pg_current_wal_lsn()), 8), 'oracled_cluster'::regclass::oid)
        AS epoch
) AS present
WHERE oracled_cluster.epoch IS DISTINCT FROM present.epoch";
const SET: &str = "
UPDATE oracled_host SET settled = epoch FROM oracled_cluster
WHERE host = $1 AND instance = $2 AND settled IS DISTINCT FROM epoch";
/// The hosts that may have groups which the server has lost. A host that is seen now is waited for up to two minutes, since it may have many
/// to append; one that was seen within 10 s before the epoch began, for 10 s.
const AWAITED: &str = "
SELECT host FROM oracled_host, oracled_cluster
WHERE state = 'live' AND settled IS DISTINCT FROM epoch AND (
    seen > greatest(epoch_since, clock_timestamp() - interval '10 s') AND clock_timestamp() < epoch_since + interval '2 min'
    OR seen > epoch_seen - interval '10 s' AND clock_timestamp() < epoch_since + interval '10 s'
)
ORDER BY host";
/// The pause before the next look at the other hosts.
const PAUSE: Duration = Duration::from_millis(50);

/// Notes the epoch of the server, before this host is seen in it.
pub(crate) fn note_epoch(client: &mut Client, durability: SharedLogDurability) -> Result<(), Error> {
    if durability != SharedLogDurability::Storage {
        client.batch_execute(NOTE)?;
    }
    Ok(())
}

/// Reports that the server has all groups of this host, and waits until it has those of the other hosts.
pub(crate) fn settle(
    client: &mut Client,
    settings: &PostgresSettings,
) -> Result<Result<(), SharedLogError>, Error> {
    if settings.durability == SharedLogDurability::Storage {
        return Ok(Ok(()));
    }
    let PostgresSettings { host, instance, answer_within, .. } = settings;
    client.execute_typed(SET, &[(host, Type::TEXT), (&instance.as_slice(), Type::BYTEA)])?;
    let mut pauses = answer_within.as_millis() / 2 / PAUSE.as_millis();
    loop {
        let awaited = client.query_typed(AWAITED, &[])?;
        let Some(other) = awaited.first() else { return Ok(Ok(())) };
        if pauses == 0 {
            let other: String = other.try_get(0)?;
            return Ok(Err(failed(format_args!(
                "the server was started again or promoted, and the host {other} has not compared its log with it yet; start it, or wait: the others continue without it after 10 s, or after two minutes if it has contact with the server"
            ))));
        }
        pauses -= 1;
        sleep(PAUSE);
    }
}
