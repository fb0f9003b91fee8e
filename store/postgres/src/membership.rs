//! The membership of a host in its cluster, and its leases.
//!
//! All times are those of the server's clock. An append locks the row of its host, so it is decided before or after a change of the
//! membership.

use crate::cluster::{CLUSTER, ClusterRow, DROP, Member};
use crate::connection::{Connection, ConnectionThreads, call, connect};
use crate::rights::{HostRights, read_rights};
use crate::settling::note_epoch;
use crate::{PostgresSettings, entry, failed, number, refused};
use jiff::Timestamp;
use postgres::types::Type;
use postgres::{Client, Error, Row, Transaction};
use std::time::Duration;
use store_log::SharedLogError;

/// A host by its name, and whether it was seen recently. The lock waits for the running append of that host.
const LOCK: &str = "
SELECT state, instance = $2, seen > clock_timestamp() - interval '10 s' FROM oracled_host WHERE host = $1 FOR UPDATE";
const INSERT: &str = "
INSERT INTO oracled_host (host, instance, seen, state) VALUES ($1, $2, clock_timestamp(), 'live') ON CONFLICT DO NOTHING";
const TAKE_OVER: &str = "
UPDATE oracled_host SET instance = $2, seen = clock_timestamp(), state = 'live' WHERE host = $1";
/// Removes the data about an earlier store of a host that joins again.
const FORGET: &str = "
UPDATE oracled_host SET applied = NULL, root = NULL, removed = NULL, settled = NULL, config = NULL WHERE host = $1";
const SET_STATE: &str = "UPDATE oracled_host SET state = $2 WHERE host = $1";
const OTHERS: &str = "SELECT EXISTS (SELECT FROM oracled_host WHERE host <> $1 AND state = 'live')";
/// The live hosts with rows of another schema.
const OTHER_SCHEMA: &str = "
SELECT host, schema FROM oracled_host
WHERE host <> $1 AND state = 'live' AND schema <> $2 AND seen > clock_timestamp() - interval '10 s'";
/// The configurations of the other live hosts. Another version can have other keys.
const CONFIGS: &str = "
SELECT host, config FROM oracled_host
WHERE host <> $1 AND state = 'live' AND config IS NOT NULL AND version = $2 AND seen > clock_timestamp() - interval '10 s'
ORDER BY host";
/// The order of the names is that of a renewal, so that neither waits for the other.
const RELEASE: &str = "
DELETE FROM oracled_lease WHERE instance = $1
AND name IN (SELECT name FROM oracled_lease WHERE instance = $1 ORDER BY name FOR UPDATE)";
/// Removes groups that all members have and that are old enough, the first ones first, but never one at which a member ends: it compares its
/// log there. Nor the last one: members that end after it append theirs to it again.
const TRIM: &str = "
DELETE FROM oracled_group WHERE before IN (
    SELECT before FROM oracled_group
    WHERE after < (SELECT min(coalesce(applied, 0)) FROM oracled_host WHERE state = 'live')
        AND after < (SELECT max(after) FROM oracled_group)
        AND appended < clock_timestamp() - $1 * interval '1 s'
        AND EXISTS (SELECT FROM oracled_host WHERE host = $2 AND instance = $3 AND state = 'live')
    ORDER BY before LIMIT 1000
)";
const END_LEASE: &str = "DELETE FROM oracled_lease WHERE instance = $1 AND name = $2";
/// A statement does not see its own changes, so the rows come from `RETURNING`. This statement gives no lease for longer than 1 min, so a longer
/// lease is ignored.
const RENEW: &str = "
WITH clock AS MATERIALIZED (
    SELECT round($7 / 1000.0 - extract(epoch FROM clock_timestamp()) * 1000)::bigint AS ahead_ms
), beat AS (
    UPDATE oracled_host SET version = $3, schema = $4, applied = $5, root = $6, removed = $9, config = $10,
        clock_offset_ms = (SELECT ahead_ms FROM clock), seen = clock_timestamp()
    WHERE host = $1 AND instance = $2 AND state = 'live' RETURNING oracled_host.*
), taken AS (
    INSERT INTO oracled_lease (name, instance, host, until)
    SELECT name, $2, $1, clock_timestamp() + interval '10 s'
    FROM (SELECT DISTINCT unnest($8) AS name ORDER BY name) AS wanted WHERE EXISTS (SELECT FROM beat)
    ON CONFLICT (name) DO UPDATE SET instance = excluded.instance, host = excluded.host, until = excluded.until
    WHERE oracled_lease.instance = excluded.instance OR oracled_lease.until <= clock_timestamp()
        OR oracled_lease.until > clock_timestamp() + interval '1 min'
    RETURNING name
), held AS (
    SELECT name, $1 AS host FROM taken UNION ALL
    SELECT name, host FROM oracled_lease
    WHERE until > clock_timestamp() AND name NOT IN (SELECT name FROM taken)
)
SELECT host, coalesce(version, ''), coalesce(schema, 0), coalesce(applied, 0), coalesce(clock_offset_ms, 0),
    greatest(0, extract(epoch FROM clock_timestamp() - seen) * 1000)::bigint, state,
    ARRAY(SELECT name FROM held WHERE held.host = known.host ORDER BY name),
    ARRAY(SELECT name FROM taken ORDER BY name), (SELECT ahead_ms FROM clock), EXISTS (SELECT FROM beat),
    coalesce(removed, 0), coalesce(config, ''), current_setting('synchronous_standby_names'),
    (SELECT count(*) FROM pg_stat_replication)
FROM (
    SELECT * FROM beat UNION ALL SELECT * FROM oracled_host WHERE host NOT IN (SELECT host FROM beat)
) AS known ORDER BY host";

/// The membership of this host in its cluster, over a connection of its own. Its calls block.
///
/// After an error the connection is gone, and the next call makes a new one.
#[derive(Debug)]
pub struct ClusterMembership {
    settings: PostgresSettings,
    connection: Option<Connection>,
    threads: ConnectionThreads,
    rights: HostRights,
}

/// The report of a host on itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heartbeat {
    /// The version of the program.
    pub version: String,
    /// The last entry of the log that it has.
    pub applied: u64,
    /// The root of the log's Merkle tree after that entry.
    pub root: [u8; 32],
    /// The entry up to which it has removed the data of removals from its files.
    pub removed: u64,
    /// The time by its own clock.
    pub clock: Timestamp,
    /// The digests of its configuration, as a text that the hosts compare.
    pub config: String,
}

/// The cluster after a heartbeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renewal {
    /// The requested leases of this process. They end 10 s after the server's answer, so 10 s after the call is earlier.
    pub leases: Vec<String>,
    /// All hosts, by name.
    pub hosts: Vec<ClusterHost>,
    /// How far the own clock is ahead of the server's. The way to the server is in it.
    pub clock_offset_ms: i64,
    /// Whether the host is live and its name is of this process. Without this, it got no lease and the heartbeat was not stored.
    pub is_live: bool,
    /// `synchronous_standby_names` of the server.
    pub synchronous_standby_names: String,
    /// The standbys that are connected to the server.
    pub standbys: u64,
}

/// A host of a cluster. Before its first heartbeat its numbers are 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterHost {
    pub host: String,
    pub version: String,
    pub schema: u32,
    /// The last entry of the log that it has.
    pub applied: u64,
    /// The entry up to which it has removed the data of removals from its files.
    pub removed: u64,
    /// How far its clock is ahead of the server's.
    pub clock_offset_ms: i64,
    /// For how long the server has not seen it.
    pub seen_ms_ago: u64,
    pub state: HostState,
    /// The leases that it holds.
    pub leases: Vec<String>,
    /// The digests of its configuration; empty before its first heartbeat.
    pub config: String,
}

/// Whether a host takes part in its cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostState {
    Live,
    /// Another host has removed it.
    Removed,
    /// It has ended its membership.
    Left,
}

impl HostState {
    #[must_use]
    pub const fn into_str(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Removed => "removed",
            Self::Left => "left",
        }
    }
}

/// Adds the host of these settings, unless its name is in use.
pub(crate) fn insert_host(
    transaction: &mut Transaction<'_>,
    settings: &PostgresSettings,
) -> Result<bool, Error> {
    let PostgresSettings { host, instance, .. } = settings;
    Ok(transaction.execute(INSERT, &[host, &instance.as_slice()])? == 1)
}

impl ClusterMembership {
    /// The membership with these settings. It connects on demand.
    #[must_use]
    pub fn new(settings: PostgresSettings) -> Self {
        let (threads, rights) = (ConnectionThreads::default(), HostRights::default());
        Self { settings, connection: None, threads, rights }
    }

    /// The rights of the user of this host, as the last connection found them.
    #[must_use]
    pub const fn rights(&self) -> &HostRights {
        &self.rights
    }

    /// Enters this host into the cluster, or takes its name over from an earlier process. A host that was removed or has left enters
    /// only if it `joins` again.
    ///
    /// # Errors
    /// The server does not answer, has another cluster, or has seen another process with this name within the last 10 s.
    pub fn enter(&mut self, joins: bool) -> Result<(), SharedLogError> {
        let (settings, schema) = (self.settings.clone(), self.settings.schema()?);
        self.decide(move |client| {
            let mut transaction = client.transaction()?;
            let cluster = transaction.query_opt(CLUSTER, &[])?;
            let cluster = cluster.map(|row| ClusterRow::read(&row, 0)).transpose()?.flatten();
            if let Err(refused) = settings.check_cluster(cluster.as_ref()) {
                return Ok(Err(refused));
            }
            let PostgresSettings { host, instance, .. } = &settings;
            let others = transaction.query(OTHER_SCHEMA, &[host, &schema])?;
            if let Some(other) = others.first() {
                let (other, theirs): (String, i32) = (other.try_get(0)?, other.try_get(1)?);
                return Ok(Err(failed(format_args!(
                    "the host {other} has rows of schema {theirs}, and this host of schema {schema}; stop one of them"
                ))));
            }
            let uses = |when: &str| Err(failed(format_args!("another process uses the name {host}{when}")));
            let Some((member, is_seen)) = lock(&mut transaction, &settings, host)? else {
                if !insert_host(&mut transaction, &settings)? {
                    return Ok(uses(""));
                }
                return transaction.commit().map(Ok);
            };
            if member.state == "live" && !member.is_own && is_seen {
                return Ok(uses(", and was seen within the last 10 s"));
            }
            if member.state != "live" && !joins {
                return Ok(Member::check(Some(&member), host));
            }
            transaction.execute(TAKE_OVER, &[host, &instance.as_slice()])?;
            if joins {
                transaction.execute(FORGET, &[host])?;
            }
            transaction.commit().map(Ok)
        })
    }

    /// Whether the database has a cluster.
    ///
    /// # Errors
    /// The server does not answer.
    pub fn has_cluster(&mut self) -> Result<bool, SharedLogError> {
        if self.connection.is_none() {
            // noting the epoch needs a cluster
            self.connection = Some(connect(&self.settings, &self.threads)?);
        }
        let row = call(&mut self.connection, |client| {
            client.query_one("SELECT to_regclass('oracled_cluster') IS NOT NULL", &[])
        })?;
        let has_cluster = row.try_get(0).map_err(failed)?;
        // the next call connects with the epoch
        self.connection = None;
        Ok(has_cluster)
    }

    /// The entry from which the shared log has groups; `None` if it has no start.
    ///
    /// # Errors
    /// The server does not answer.
    pub fn first_entry(&mut self) -> Result<Option<u64>, SharedLogError> {
        let row = self.call(|client| client.query_one("SELECT min(after) FROM oracled_group", &[]))?;
        row.try_get::<_, Option<i64>>(0).map_err(failed)?.map(entry).transpose()
    }

    /// The configurations of the other hosts, by name, as their last heartbeats had them.
    ///
    /// # Errors
    /// The server does not answer.
    pub fn other_configs(&mut self, version: &str) -> Result<Vec<(String, String)>, SharedLogError> {
        let (host, version) = (self.settings.host.clone(), version.to_owned());
        self.call(move |client| {
            let rows = client.query(CONFIGS, &[&host, &version])?;
            rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
        })
    }

    /// Reports this host, takes or renews the `wanted` leases for 10 s, and reads all hosts in one statement.
    ///
    /// A lease is taken if no other process holds it. A lease that is no longer requested ends by itself.
    ///
    /// # Errors
    /// The server does not answer. It is unknown then which leases were renewed.
    pub fn renew(&mut self, heartbeat: &Heartbeat, wanted: &[&str]) -> Result<Renewal, SharedLogError> {
        let Heartbeat { version, applied, root, removed, clock, config } = heartbeat.clone();
        let (schema, applied, removed) = (self.settings.schema()?, number(applied)?, number(removed)?);
        let (clock, PostgresSettings { host, instance, .. }) =
            (clock.as_microsecond(), self.settings.clone());
        let wanted: Vec<_> = wanted.iter().map(ToString::to_string).collect();
        let rows = self.call(move |client| {
            client.query_typed(
                RENEW,
                &[
                    (&host, Type::TEXT),
                    (&instance.as_slice(), Type::BYTEA),
                    (&version, Type::TEXT),
                    (&schema, Type::INT4),
                    (&applied, Type::INT8),
                    (&root.as_slice(), Type::BYTEA),
                    (&clock, Type::INT8),
                    (&wanted, Type::TEXT_ARRAY),
                    (&removed, Type::INT8),
                    (&config, Type::TEXT),
                ],
            )
        })?;
        let hosts = rows.iter().map(read_host).collect::<Result<_, _>>()?;
        let own = rows.first().ok_or_else(|| failed("its cluster has no host"))?;
        let read = || {
            let standbys: i64 = own.try_get(14)?;
            Ok::<_, Error>(Renewal {
                leases: own.try_get(8)?,
                hosts,
                clock_offset_ms: own.try_get(9)?,
                is_live: own.try_get(10)?,
                synchronous_standby_names: own.try_get(13)?,
                standbys: standbys.unsigned_abs(),
            })
        };
        read().map_err(failed)
    }

    /// Removes groups from the server that are older than `retained`, at most some at a time. A host that has not applied them keeps them there.
    /// Returns their number.
    ///
    /// # Errors
    /// The server does not answer.
    pub fn trim(&mut self, retained: Duration) -> Result<u64, SharedLogError> {
        let PostgresSettings { host, instance, .. } = self.settings.clone();
        let seconds = retained.as_secs_f64();
        self.call(move |client| client.execute(TRIM, &[&seconds, &host, &instance.as_slice()]))
    }

    /// Releases all leases of this process.
    ///
    /// # Errors
    /// The server does not answer.
    pub fn release(&mut self) -> Result<(), SharedLogError> {
        let instance = self.settings.instance;
        self.call(move |client| client.execute(RELEASE, &[&instance.as_slice()]))?;
        Ok(())
    }

    /// Ends one lease of this process.
    ///
    /// # Errors
    /// The server does not answer.
    pub fn end_lease(&mut self, name: &str) -> Result<(), SharedLogError> {
        let (instance, name) = (self.settings.instance, name.to_owned());
        self.call(move |client| client.execute(END_LEASE, &[&instance.as_slice(), &name]))?;
        Ok(())
    }

    /// Removes another host: from then on it cannot append, nor renew its leases, which end by themselves. `Ok(false)` if there is
    /// none with this name.
    ///
    /// # Errors
    /// The server does not answer, or the host is this one.
    pub fn remove(&mut self, host: &str) -> Result<bool, SharedLogError> {
        if host == self.settings.host {
            return Err(refused("a host does not remove itself; it leaves the cluster"));
        }
        let (settings, host) = (self.settings.clone(), host.to_owned());
        self.call(move |client| {
            let mut transaction = client.transaction()?;
            let is_known = lock(&mut transaction, &settings, &host)?.is_some();
            transaction.execute(SET_STATE, &[&host, &"removed"])?;
            transaction.commit().map(|()| is_known)
        })
    }

    /// Ends the membership of this host, and releases its leases. If it leaves as the last host, ends the cluster with its log;
    /// `Ok(false)` and no change if another one has not left and was not removed, or if it is the last host and does not leave as such.
    ///
    /// # Errors
    /// The server does not answer, or the host is not a member by this process.
    pub fn leave(&mut self, is_last: bool) -> Result<bool, SharedLogError> {
        let settings = self.settings.clone();
        if is_last && !self.has_cluster()? {
            // an earlier call has ended it, and its answer was lost
            return Ok(true);
        }
        self.decide(move |client| {
            let mut transaction = client.transaction()?;
            let PostgresSettings { host, instance, .. } = &settings;
            let member = lock(&mut transaction, &settings, host)?.map(|(member, _)| member);
            if let Err(refused) = Member::check(member.as_ref(), host) {
                return Ok(Err(refused));
            }
            let has_others: bool = transaction.query_one(OTHERS, &[host])?.try_get(0)?;
            if is_last == has_others {
                return Ok(Ok(false));
            }
            if is_last {
                transaction.batch_execute(DROP)?;
                return transaction.commit().map(|()| Ok(true));
            }
            transaction.execute(SET_STATE, &[host, &"left"])?;
            transaction.execute(RELEASE, &[&instance.as_slice()])?;
            transaction.commit().map(|()| Ok(true))
        })
    }

    /// Connects, if there is no connection.
    ///
    /// # Errors
    /// The server does not answer.
    pub fn connect(&mut self) -> Result<(), SharedLogError> {
        if self.connection.is_none() {
            self.connection = Some(connect(&self.settings, &self.threads)?);
            self.rights = call(&mut self.connection, read_rights)?;
            let durability = self.settings.durability;
            call(&mut self.connection, move |client| note_epoch(client, durability))?;
        }
        Ok(())
    }

    /// Calls the server, over a new connection if there is none.
    fn call<T: Send + 'static>(
        &mut self,
        run: impl FnOnce(&mut Client) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, SharedLogError> {
        self.connect()?;
        call(&mut self.connection, run)
    }

    /// Calls the server for something that can be refused.
    fn decide<T: Send + 'static>(
        &mut self,
        run: impl FnOnce(&mut Client) -> Result<Result<T, SharedLogError>, Error> + Send + 'static,
    ) -> Result<T, SharedLogError> {
        self.call(run)?
    }
}

/// Locks a host, and reads it and whether it was seen recently.
fn lock(
    transaction: &mut Transaction<'_>,
    own: &PostgresSettings,
    host: &str,
) -> Result<Option<(Member, bool)>, Error> {
    let Some(row) = transaction.query_opt(LOCK, &[&host, &own.instance.as_slice()])? else { return Ok(None) };
    Member::read(&row, 0)?.map(|member| Ok((member, row.try_get(2)?))).transpose()
}

/// The part of each row of a renewal about this host.
fn read_host(row: &Row) -> Result<ClusterHost, SharedLogError> {
    let read = || {
        let texts: (String, String, String) = (row.try_get(0)?, row.try_get(1)?, row.try_get(6)?);
        let numbers: (i32, i64, i64, i64) =
            (row.try_get(2)?, row.try_get(3)?, row.try_get(5)?, row.try_get(11)?);
        Ok::<_, Error>((texts, numbers, row.try_get(4)?, row.try_get(7)?, row.try_get(12)?))
    };
    let ((host, version, state), (schema, applied, seen, removed), clock_offset_ms, leases, config) =
        read().map_err(failed)?;
    let state = match state.as_str() {
        "live" => HostState::Live,
        "removed" => HostState::Removed,
        "left" => HostState::Left,
        other => return Err(failed(format_args!("the host {host} has the state {other}"))),
    };
    let schema = u32::try_from(schema).map_err(failed)?;
    let (applied, seen_ms_ago, removed) = (entry(applied)?, entry(seen)?, entry(removed)?);
    Ok(ClusterHost {
        host,
        version,
        schema,
        applied,
        removed,
        clock_offset_ms,
        seen_ms_ago,
        state,
        leases,
        config,
    })
}
