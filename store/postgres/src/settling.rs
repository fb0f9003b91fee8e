//! Settling: a server that was started again or promoted may have lost groups, which the hosts append again. Until they have, none appends
//! other groups, and none answers that something is missing.
//!
//! Such a server has a new epoch: the start of its process, its timeline, and the table of the cluster. The first host that sees the new
//! epoch stores when the hosts were last seen before it. A storage that is replicated below PostgreSQL loses nothing by a start, so it has no
//! such epochs.
//!
//! The first host that finds a shorter log within an epoch raises the epoch: it adds the time of this loss. An older copy of the table has
//! an earlier time or none, so no epoch occurs twice. Each append and each read of the tail compares the epoch with that of its connection.
//! An append also notes its last entry as the mark of the epoch. So a host that never had the lost groups finds the loss, too.

use crate::{PostgresSettings, SharedLogDurability, failed};
use postgres::types::Type;
use postgres::{Client, Error};
use std::thread::sleep;
use std::time::Duration;
use store_log::SharedLogError;

/// The beginning of an epoch.
const BEGIN: &str = "
UPDATE oracled_cluster SET epoch_since = clock_timestamp(), epoch_seen = (SELECT max(seen) FROM oracled_host),
    mark = (SELECT coalesce(max(after), 0) FROM oracled_group), ";
/// The start is a number, which does not depend on the time zone of the user.
const NOTE: &str = "epoch = present.epoch FROM (
    SELECT concat_ws(' ', extract(epoch FROM pg_postmaster_start_time()), left(pg_walfile_name(pg_current_wal_lsn()), 8),
        'oracled_cluster'::regclass::oid) AS epoch
) AS present
WHERE split_part(oracled_cluster.epoch, '/', 1) IS DISTINCT FROM present.epoch";
const RAISE: &str = "epoch = concat(split_part(epoch, '/', 1), '/', extract(epoch FROM clock_timestamp()))
WHERE epoch IS NOT DISTINCT FROM $1 RETURNING epoch";
const SET: &str = "
UPDATE oracled_host SET settled = $3 WHERE host = $1 AND instance = $2 AND settled IS DISTINCT FROM $3";
/// The hosts that may have groups which the server has lost. Other hosts wait up to 2 min for a host that is seen now, since it may have many
/// groups to append. They wait 10 s for a host that was seen within 10 s before the epoch began.
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
        client.batch_execute(&format!("{BEGIN}{NOTE}"))?;
    }
    Ok(())
}

/// Raises the epoch of a server that has lost groups within it. Returns the new one, unless another host has raised it.
pub(crate) fn raise_epoch(client: &mut Client, epoch: Option<String>) -> Result<Option<String>, Error> {
    let raised = client.query_typed(&format!("{BEGIN}{RAISE}"), &[(&epoch, Type::TEXT)])?;
    raised.first().map_or(Ok(epoch), |row| row.try_get(0))
}

/// Reports that the server has all groups of this host in this epoch, and waits until it has those of the other hosts.
pub(crate) fn settle(
    client: &mut Client,
    settings: &PostgresSettings,
    epoch: Option<&str>,
) -> Result<Result<(), SharedLogError>, Error> {
    let PostgresSettings { host, instance, answer_within, .. } = settings;
    client.execute_typed(
        SET,
        &[(host, Type::TEXT), (&instance.as_slice(), Type::BYTEA), (&epoch, Type::TEXT)],
    )?;
    let mut pauses = answer_within.as_millis() / 2 / PAUSE.as_millis();
    loop {
        let awaited = client.query_typed(AWAITED, &[])?;
        let Some(other) = awaited.first() else { return Ok(Ok(())) };
        let other: String = other.try_get(0)?;
        // the epoch of this host has ended, so the host compares again
        if pauses == 0 || other == *host {
            return Ok(Err(failed(format_args!(
                "the host {other} has not compared its log with the server since the server was restarted, was promoted or lost entries; start this host, or wait: the others continue without it after 10 s, or after 2 min if it has contact with the server"
            ))));
        }
        pauses -= 1;
        sleep(PAUSE);
    }
}
