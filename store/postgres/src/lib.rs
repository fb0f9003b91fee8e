//! The shared log of a cluster, as a table of PostgreSQL, and the membership and the leases of its hosts.
//!
//! A group is appended if the log ends at the group's first entry, which one statement decides. The rows of a group are compressed and
//! encrypted: PostgreSQL keeps what was deleted in its write-ahead log, its replicas and its archives, and only a destroyed key erases
//! it there.

mod address;
mod cluster;
mod connection;
mod keys;
mod membership;
mod meter;
mod rights;
mod settling;

pub use address::crosses_network_in_cleartext;
pub use cluster::ClusterIdentity;
use cluster::{ClusterRow, DROP, Member, NO_CLUSTER, PROTOCOL, TABLES, id_of};
use connection::{Connection, ConnectionThreads, call, connect};
pub use keys::{ClusterKeys, ClusterKeysError};
use keys::{KeyCheck, SealedRows};
use membership::insert_host;
pub use membership::{ClusterHost, ClusterMembership, Heartbeat, HostState, Renewal};
pub use meter::{ClusterMeters, MeterLimit};
use postgres::types::Type;
use postgres::{Client, Error, Row};
pub use rights::HostRights;
use rights::grants_to;
use settling::{note_epoch, raise_epoch, settle};
use std::fmt::{self, Debug};
use std::time::Duration;
use store_log::{GroupsEnd, SharedAppend, SharedEnd, SharedGroup, SharedLog, SharedLogError, SharedTail};

/// The longest wait for a read of groups.
const READ_WITHIN_MAX: Duration = Duration::from_secs(60);
/// The `before` of the row from which the log starts. It has no group.
const START: i64 = -1;

/// Appends a group, if the log ends before it, has lost none in this epoch, and the host is live. Its row is locked, so an append is decided
/// before or after a removal.
const APPEND: &str = "
WITH added AS (
    INSERT INTO oracled_group (before, after, root, host, key_id, bytes, schema)
    SELECT $1, $2, $3, $4, $5, $6, $9 FROM oracled_host, oracled_cluster
    WHERE host = $4 AND instance = $8 AND state = 'live' AND epoch IS NOT DISTINCT FROM $10 AND mark <= $1
        AND EXISTS (SELECT FROM oracled_group WHERE after = $1 AND root = $7)
    FOR KEY SHARE OF oracled_host
    ON CONFLICT DO NOTHING RETURNING after
), marked AS (
    UPDATE oracled_cluster SET mark = $2 WHERE EXISTS (SELECT FROM added)
)
SELECT EXISTS (SELECT FROM added), state, instance = $8, pg_try_advisory_xact_lock(8613, 1)
FROM (SELECT 1) AS one LEFT JOIN oracled_host ON host = $4";
/// A host that waits to append holds this lock of its session with others, and an append finds out whether another session holds it.
const WAIT: &str = "SELECT pg_advisory_lock_shared(8613, 1)";
const WAIT_NO_MORE: &str = "SELECT pg_advisory_unlock_shared(8613, 1)";
const READ: &str = "
SELECT before, after, root, key_id, bytes, schema FROM (
    SELECT *, sum(length(bytes)) OVER (ORDER BY before) - length(bytes) AS earlier_bytes
    FROM (SELECT * FROM oracled_group WHERE before >= $1 ORDER BY before LIMIT 1000) AS next
) AS sized WHERE earlier_bytes <= $2 ORDER BY before";
/// The end, and whether the log has lost no group since the connection was made.
const TAIL: &str = "
SELECT after, root, epoch IS NOT DISTINCT FROM $1 AND mark <= after
FROM oracled_cluster, (SELECT after, root FROM oracled_group ORDER BY after DESC LIMIT 1) AS tail";
const SEEN: &str = "UPDATE oracled_host SET seen = clock_timestamp() WHERE host = $1 AND instance = $2";
const ADD_KEY: &str = "INSERT INTO oracled_key (id, digest, host) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
const KEY: &str = "SELECT digest, host FROM oracled_key WHERE id = $1";
const KNOWN_CLUSTER: &str =
    "it has a cluster already; let this host join it, or replace it with `oraclectl cluster init --reset`";
const ENDS: &str =
    "SELECT after, root, host FROM oracled_group WHERE after <= $1 ORDER BY after DESC LIMIT 1000";
/// The root after an entry, the first and the last entry at which a group ends, the cluster, the host, the epoch, whether this host has settled
/// in it, and whether the log has lost groups in it.
const COMPARE: &str = "
SELECT own.root, first, last, store_id, protocol, log_key, held_key, state, instance = $3, epoch,
    settled IS NOT DISTINCT FROM epoch, coalesce(mark > last, false)
FROM (SELECT min(after) AS first, max(after) AS last FROM oracled_group) AS ends
LEFT JOIN (SELECT root FROM oracled_group WHERE after = $1) AS own ON true
LEFT JOIN oracled_cluster ON true
LEFT JOIN oracled_host ON oracled_host.host = $2";

/// How many servers have a group when its append is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SharedLogDurability {
    /// The primary and a standby, which PostgreSQL must be configured for.
    SynchronousStandby,
    /// The storage of the server is replicated below PostgreSQL.
    Storage,
    /// The primary alone: a failover can lose groups. A host that has them cannot append.
    Asynchronous,
}

/// The server, the cluster and the host of a shared log.
#[derive(Clone)]
pub struct PostgresSettings {
    /// The server and the user, such as `postgres://…`.
    pub url: String,
    /// The name of this host.
    pub host: String,
    /// The process of this host: random bytes.
    pub instance: [u8; 16],
    /// The id of the store that the hosts share.
    pub store_id: u64,
    /// The version of the rows of this host.
    pub schema: u32,
    pub identity: ClusterIdentity,
    pub keys: ClusterKeys,
    pub durability: SharedLogDurability,
    /// The longest wait for an answer. The statement is not cancelled then: its connection is given up.
    pub answer_within: Duration,
}

impl Debug for PostgresSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // the URL can have a password
        let Self { host, store_id, durability, .. } = self;
        write!(
            f,
            "PostgresSettings {{ host: {host:?}, store_id: {store_id}, durability: {durability:?}, .. }}"
        )
    }
}

/// The shared log, for one host.
#[derive(Debug)]
pub struct PostgresLog {
    settings: PostgresSettings,
    connection: Option<Connection>,
    /// The epoch of the server in which the ends were compared on the present connection.
    epoch: Option<String>,
    threads: ConnectionThreads,
    /// The key that was compared with that of the other hosts, on the present connection.
    compared_key: Option<KeyCheck>,
    /// How long a read of groups waits. A slow connection needs longer for a large one than any other statement does.
    read_within: Duration,
}

fn failed(cause: impl fmt::Display) -> SharedLogError {
    SharedLogError::Unanswered(cause.to_string())
}

fn refused(cause: impl fmt::Display) -> SharedLogError {
    SharedLogError::Refused(cause.to_string())
}

impl PostgresSettings {
    pub(crate) fn schema(&self) -> Result<i32, SharedLogError> {
        i32::try_from(self.schema).map_err(failed)
    }
}

impl PostgresLog {
    /// The shared log with these settings. It connects on demand.
    #[must_use]
    pub fn new(settings: PostgresSettings) -> Self {
        let (threads, read_within) = (ConnectionThreads::default(), settings.answer_within);
        Self { settings, connection: None, epoch: None, threads, compared_key: None, read_within }
    }

    /// Creates the tables of a cluster, whose log continues after the groups of this host, and grants `user` the rights of a host, if there is
    /// one. The host is its first member. If this process has done that before, nothing changes.
    ///
    /// # Errors
    /// The server does not answer, has a cluster that is not reset, or has no such user, or the user of the settings may not create tables.
    pub fn create(
        &mut self,
        own: GroupsEnd,
        resets: bool,
        user: Option<String>,
    ) -> Result<(), SharedLogError> {
        self.connection = None;
        self.connection = Some(connect(&self.settings, &self.threads)?);
        let settings = self.settings.clone();
        let (after, schema) = (number(own.entries)?, settings.schema()?);
        self.call(move |client| {
            let mut transaction = client.transaction()?;
            if resets {
                transaction.batch_execute(DROP)?;
            }
            transaction.batch_execute(TABLES)?;
            let PostgresSettings { store_id, identity, host, .. } = &settings;
            let created = transaction.execute(
                "INSERT INTO oracled_cluster (store_id, protocol, log_key, held_key, mark) VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING",
                &[&id_of(*store_id), &PROTOCOL, &identity.log_key, &identity.held_key, &after],
            )?;
            if created == 1 {
                let row = "INSERT INTO oracled_group VALUES ($1, $2, $3, $4, '', '', $5)";
                transaction.execute(row, &[&START, &after, &own.root.as_slice(), host, &schema])?;
                insert_host(&mut transaction, &settings)?;
            }
            let known = "SELECT FROM oracled_host WHERE host = $1 AND instance = $2";
            let is_own = transaction.query_opt(known, &[host, &settings.instance.as_slice()])?.is_some();
            for grant in user.iter().filter(|_| is_own).flat_map(|user| grants_to(user)) {
                transaction.batch_execute(&grant)?;
            }
            transaction.commit().map(|()| if is_own { Ok(()) } else { Err(refused(KNOWN_CLUSTER)) })
        })?
    }

    /// Calls the server over the present connection, which an error ends.
    fn call<T: Send + 'static>(
        &mut self,
        run: impl FnOnce(&mut Client) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, SharedLogError> {
        call(&mut self.connection, run)
    }

    /// Compares a key that has encrypted with the key of this id of the other hosts, which could not read the group otherwise.
    fn compare_key(&mut self, key: KeyCheck) -> Result<(), SharedLogError> {
        if self.compared_key.as_ref() == Some(&key) {
            return Ok(());
        }
        let (KeyCheck { id, digest }, own) = (key.clone(), self.settings.host.clone());
        let (known, host) = self.call(move |client| {
            client.execute(ADD_KEY, &[&id, &digest, &own])?;
            let row = client.query_one(KEY, &[&id])?;
            Ok((row.try_get::<_, Vec<u8>>(0)?, row.try_get::<_, String>(1)?))
        })?;
        if known != key.digest {
            self.connection = None;
            return Err(refused(format_args!(
                "the key {} of this host is not that of the host {host}; copy `cluster-keys` from there, and reload",
                key.id
            )));
        }
        self.compared_key = Some(key);
        Ok(())
    }

    /// How the groups of this host relate to the log that a row of [`COMPARE`] describes.
    fn compared(&self, own: GroupsEnd, row: &Row) -> Result<SharedTail, SharedLogError> {
        self.settings.check_cluster(ClusterRow::read(row, 3).map_err(failed)?.as_ref())?;
        Member::check(Member::read(row, 7).map_err(failed)?.as_ref(), &self.settings.host)?;
        let root: Option<Vec<u8>> = row.try_get(0).map_err(failed)?;
        let ends: (Option<i64>, Option<i64>) =
            (row.try_get(1).map_err(failed)?, row.try_get(2).map_err(failed)?);
        let (Some(first), Some(last)) = ends else { return Err(refused(NO_CLUSTER)) };
        let (first, last) = (entry(first)?, entry(last)?);
        match root {
            Some(root) if root == own.root => Ok(SharedTail::Follows(last)),
            None if last < own.entries => Ok(SharedTail::Lacks(last)),
            None if own.entries < first => Err(refused(format_args!(
                "it begins at entry {first}, and this host ends at entry {}; join the cluster again from a backup",
                own.entries
            ))),
            _ => Ok(SharedTail::Forked),
        }
    }
}

impl SharedLog for PostgresLog {
    fn connect(&mut self, own: GroupsEnd) -> Result<SharedTail, SharedLogError> {
        (self.connection, self.compared_key) = (None, None);
        self.connection = Some(connect(&self.settings, &self.threads)?);
        let (entries, PostgresSettings { host, instance, .. }) =
            (number(own.entries)?, self.settings.clone());
        let durability = self.settings.durability;
        let row = self.call(move |client| {
            note_epoch(client, durability)?;
            let instance = instance.as_slice();
            // a group without its standby can be seen after a crash of the server; this commit waits for both
            client.execute_typed(SEEN, &[(&host, Type::TEXT), (&instance, Type::BYTEA)])?;
            client.query_typed_one(
                COMPARE,
                &[(&entries, Type::INT8), (&host, Type::TEXT), (&instance, Type::BYTEA)],
            )
        })?;
        let tail = self.compared(own, &row).inspect_err(|_| self.connection = None)?;
        self.epoch = row.try_get(9).map_err(failed)?;
        let (is_settled, is_lost): (bool, bool) =
            (row.try_get(10).map_err(failed)?, row.try_get(11).map_err(failed)?);
        // in an epoch in which this host has not settled, all hosts settle anyway
        if is_lost || is_settled && matches!(tail, SharedTail::Lacks(_)) {
            let epoch = self.epoch.take();
            self.epoch = self.call(move |client| raise_epoch(client, epoch))?;
        }
        Ok(tail)
    }

    fn settle(&mut self) -> Result<(), SharedLogError> {
        let (settings, epoch) = (self.settings.clone(), self.epoch.clone());
        self.call(move |client| settle(client, &settings, epoch.as_deref()))?
    }

    fn ends(&mut self, up_to: u64) -> Result<Vec<SharedEnd>, SharedLogError> {
        let up_to = i64::try_from(up_to).unwrap_or(i64::MAX);
        let rows = self.call(move |client| client.query_typed(ENDS, &[(&up_to, Type::INT8)]))?;
        let read = |row: &Row| Ok(SharedEnd { end: end_in(row)?, host: row.try_get(2).map_err(failed)? });
        rows.iter().map(read).collect()
    }

    fn append(&mut self, own: GroupsEnd, group: &SharedGroup) -> Result<SharedAppend, SharedLogError> {
        let (sealed, key) = self.settings.keys.seal(self.settings.store_id, group)?;
        // a reload can have changed the keys just now
        self.compare_key(key)?;
        let SealedRows { key_id, bytes } = sealed;
        let (before, after) = (number(group.before)?, number(group.after)?);
        let (root, before_root) = (group.root, own.root);
        let PostgresSettings { host, instance, .. } = self.settings.clone();
        let (schema, epoch) = (self.settings.schema()?, self.epoch.clone());
        let row = self.call(move |client| {
            client.query_typed_one(
                APPEND,
                &[
                    (&before, Type::INT8),
                    (&after, Type::INT8),
                    (&root.as_slice(), Type::BYTEA),
                    (&host, Type::TEXT),
                    (&key_id, Type::TEXT),
                    (&bytes, Type::BYTEA),
                    (&before_root.as_slice(), Type::BYTEA),
                    (&instance.as_slice(), Type::BYTEA),
                    (&schema, Type::INT4),
                    (&epoch, Type::TEXT),
                ],
            )
        })?;
        if row.try_get(0).map_err(failed)? {
            let is_alone: bool = row.try_get(3).map_err(failed)?;
            return Ok(if is_alone { SharedAppend::Appended } else { SharedAppend::AppendedBefore });
        }
        let member = Member::read(&row, 1).map_err(failed)?;
        let checked = Member::check(member.as_ref(), &self.settings.host);
        checked.inspect_err(|_| self.connection = None)?;
        Ok(SharedAppend::Behind)
    }

    fn set_waiting(&mut self, is_waiting: bool) -> Result<(), SharedLogError> {
        let statement = if is_waiting { WAIT } else { WAIT_NO_MORE };
        self.call(move |client| client.batch_execute(statement))
    }

    fn read(&mut self, after: u64, max_bytes: usize) -> Result<Vec<SharedGroup>, SharedLogError> {
        let (after, max_bytes) = (number(after)?, i64::try_from(max_bytes).unwrap_or(i64::MAX));
        if let Some(connection) = &mut self.connection {
            connection.answer_within = self.read_within;
        }
        let rows = self
            .call(move |client| client.query_typed(READ, &[(&after, Type::INT8), (&max_bytes, Type::INT8)]));
        self.read_within = match (&rows, &mut self.connection) {
            (Ok(_), Some(connection)) => {
                connection.answer_within = self.settings.answer_within;
                self.settings.answer_within
            }
            // the group may be large
            _ => (self.read_within * 2).min(READ_WITHIN_MAX),
        };
        let rows = rows?;
        let PostgresSettings { keys, store_id, .. } = &self.settings;
        let own_schema = self.settings.schema()?;
        let read = |row: &Row| {
            let schema: i32 = row.try_get(5).map_err(failed)?;
            if schema != own_schema {
                return Err(refused(format_args!(
                    "the next group has rows of schema {schema}, and this host of schema {own_schema}; start the other version of oracled, \
                     or join again with a backup of another host"
                )));
            }
            let numbers: (i64, i64) = (row.try_get(0).map_err(failed)?, row.try_get(1).map_err(failed)?);
            let root: Vec<u8> = row.try_get(2).map_err(failed)?;
            let sealed = SealedRows {
                key_id: row.try_get(3).map_err(failed)?,
                bytes: row.try_get(4).map_err(failed)?,
            };
            let (before, after) = (entry(numbers.0)?, entry(numbers.1)?);
            let empty = SharedGroup { before, after, root: root_of(root)?, rows: Vec::new() };
            Ok(SharedGroup { rows: keys.open(*store_id, &empty, &sealed)?, ..empty })
        };
        rows.iter().map(read).collect()
    }

    fn tail(&mut self) -> Result<Option<GroupsEnd>, SharedLogError> {
        let epoch = self.epoch.clone();
        let rows = self.call(move |client| client.query_typed(TAIL, &[(&epoch, Type::TEXT)]))?;
        let row = rows.first().ok_or_else(|| refused(NO_CLUSTER))?;
        let end = end_in(row)?;
        let is_whole: bool = row.try_get(2).map_err(failed)?;
        Ok(is_whole.then_some(end))
    }
}

/// The number of an entry for PostgreSQL, which has signed numbers.
fn number(entry: u64) -> Result<i64, SharedLogError> {
    i64::try_from(entry).map_err(failed)
}

/// The end of a group in the first two columns of a row.
fn end_in(row: &Row) -> Result<GroupsEnd, SharedLogError> {
    let (entries, root): (i64, Vec<u8>) = (row.try_get(0).map_err(failed)?, row.try_get(1).map_err(failed)?);
    Ok(GroupsEnd { entries: entry(entries)?, root: root_of(root)? })
}

fn root_of(bytes: Vec<u8>) -> Result<[u8; 32], SharedLogError> {
    bytes.try_into().map_err(|_| failed("the root of a group has another length"))
}

fn entry(number: i64) -> Result<u64, SharedLogError> {
    u64::try_from(number).map_err(failed)
}
