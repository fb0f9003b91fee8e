//! The meters of a cluster: limits of calls that all hosts make together.
//!
//! A meter has the time at which its next call is due if the calls come evenly. A call is taken if that time has passed, or is as near as the
//! burst allows. It is the algorithm by which a host alone limits its calls (GCRA), so a limit permits the same calls in both cases.

use crate::connection::{Connection, ConnectionThreads, call, connect};
use crate::{PostgresSettings, failed};
use postgres::Client;
use postgres::types::Type;
use std::time::Duration;
use store_log::SharedLogError;

const CREATE: &str = "
INSERT INTO oracled_meter (name, due) SELECT name, clock_timestamp() FROM unnest($1::text[]) AS name ORDER BY name
ON CONFLICT DO NOTHING";
/// The waits of all meters. If none has to wait, one call is taken of each. The time is read after all meters are locked, by name.
const TAKE: &str = "
WITH locked AS MATERIALIZED (
    SELECT name, due FROM oracled_meter WHERE name = ANY ($1) ORDER BY name FOR UPDATE
), clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now FROM (SELECT count(*) FROM locked) AS all_locked
), waits AS MATERIALIZED (
    SELECT name, greatest(due, now) + every_us * interval '1 microsecond' AS due,
        greatest(0, ceil(extract(epoch FROM due - now) * 1000000) - (burst - 1) * every_us)::bigint AS wait_us
    FROM unnest($1, $2, $3) AS wanted (name, every_us, burst) JOIN locked USING (name) CROSS JOIN clock
), taken AS (
    UPDATE oracled_meter SET due = waits.due FROM waits
    WHERE oracled_meter.name = waits.name AND NOT EXISTS (SELECT FROM waits WHERE wait_us > 0)
        AND (SELECT count(*) FROM waits) = cardinality($1)
)
SELECT coalesce(wait_us, -1) FROM unnest($1) WITH ORDINALITY AS wanted (name, place) LEFT JOIN waits USING (name)
ORDER BY place";

/// A limit of calls that all hosts of a cluster share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeterLimit {
    /// Its name, by which all hosts know it.
    pub name: String,
    /// The time from one call to the next, if they come evenly.
    pub every: Duration,
    /// The number of calls that may come at once.
    pub burst: u32,
}

/// The meters of a cluster, over a connection of their own. Its calls block.
///
/// After an error the connection is gone, and the next call makes a new one.
#[derive(Debug)]
pub struct ClusterMeters {
    settings: PostgresSettings,
    connection: Option<Connection>,
    threads: ConnectionThreads,
}

impl ClusterMeters {
    /// The meters with these settings. It connects on demand.
    #[must_use]
    pub fn new(settings: PostgresSettings) -> Self {
        Self { settings, connection: None, threads: ConnectionThreads::default() }
    }

    /// Takes one call of each limit, by one statement, or of none if one of them has to wait. Returns the waits in the order of the
    /// limits: all are zero if the call was taken.
    ///
    /// # Errors
    /// The server does not answer. It is unknown then whether the call was taken, so it must not be made.
    pub fn take(&mut self, limits: &[MeterLimit]) -> Result<Vec<Duration>, SharedLogError> {
        let names: Vec<_> = limits.iter().map(|limit| limit.name.clone()).collect();
        let every = limits.iter().map(|limit| i64::try_from(limit.every.as_micros()).map_err(failed));
        let every: Vec<_> = every.collect::<Result<_, _>>()?;
        let bursts: Vec<_> = limits.iter().map(|limit| i64::from(limit.burst)).collect();
        if self.connection.is_none() {
            self.connection = Some(connect(&self.settings, &self.threads)?);
        }
        let waits = call(&mut self.connection, move |client| {
            let waits = take(client, &names, &every, &bursts)?;
            if waits.iter().all(|wait| *wait >= 0) {
                return Ok(waits);
            }
            client.execute(CREATE, &[&names])?;
            take(client, &names, &every, &bursts)
        })?;
        let waits = waits.into_iter().map(|wait_us| u64::try_from(wait_us).map(Duration::from_micros));
        waits.collect::<Result<_, _>>().map_err(|_| failed("a meter was removed"))
    }
}

/// The waits in microseconds; -1 for a meter that does not exist.
fn take(
    client: &mut Client,
    names: &Vec<String>,
    every: &Vec<i64>,
    bursts: &Vec<i64>,
) -> Result<Vec<i64>, postgres::Error> {
    let values: [(&(dyn postgres::types::ToSql + Sync), Type); 3] =
        [(names, Type::TEXT_ARRAY), (every, Type::INT8_ARRAY), (bursts, Type::INT8_ARRAY)];
    client.query_typed(TAKE, &values)?.iter().map(|row| row.try_get(0)).collect()
}
