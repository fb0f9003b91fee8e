//! The shared log of a cluster, as a table of PostgreSQL.
//!
//! A group is appended if the log ends at the group's first entry, which one statement decides. The rows of a group are compressed and
//! encrypted: PostgreSQL keeps what was deleted in its write-ahead log, its replicas and its archives, and only a destroyed key erases
//! it there.

mod address;
mod connection;
mod keys;

pub use address::crosses_network_in_cleartext;
use connection::{Connection, connect};
use keys::SealedRows;
pub use keys::{ClusterKeys, ClusterKeysError};
use postgres::{Client, Error};
use std::fmt::{self, Debug};
use std::time::Duration;
use store_log::{GroupsEnd, SharedAppend, SharedGroup, SharedLog, SharedLogError, SharedTail};

/// The `before` of the row from which the log starts. It has no group.
const START: i64 = -1;

/// The tables of a cluster.
const TABLES: &str = "
CREATE TABLE IF NOT EXISTS oracled_cluster (
    store_id bigint PRIMARY KEY,
    protocol integer NOT NULL,
    one boolean NOT NULL DEFAULT true UNIQUE CHECK (one)
);
CREATE TABLE IF NOT EXISTS oracled_group (
    before bigint PRIMARY KEY,
    after bigint NOT NULL UNIQUE,
    root bytea NOT NULL,
    host text NOT NULL,
    key_id text NOT NULL,
    bytes bytea NOT NULL
);
";
/// The version of the tables and of the form of a group.
const PROTOCOL: i32 = 1;

const APPEND: &str = "
INSERT INTO oracled_group (before, after, root, host, key_id, bytes)
SELECT $1, $2, $3, $4, $5, $6 WHERE EXISTS (SELECT FROM oracled_group WHERE after = $1 AND root = $7)
ON CONFLICT DO NOTHING RETURNING after";
const READ: &str = "
SELECT before, after, root, key_id, bytes FROM (
    SELECT *, sum(length(bytes)) OVER (ORDER BY before) - length(bytes) AS earlier_bytes
    FROM (SELECT * FROM oracled_group WHERE before >= $1 ORDER BY before LIMIT 1000) AS next
) AS sized WHERE earlier_bytes <= $2 ORDER BY before";
const TAIL: &str = "SELECT max(after) FROM oracled_group";
/// The root after an entry, the first and the last entry at which a group ends, and the cluster.
const COMPARE: &str = "
SELECT (SELECT root FROM oracled_group WHERE after = $1), min(after), max(after),
    (SELECT store_id FROM oracled_cluster), (SELECT protocol FROM oracled_cluster)
FROM oracled_group";

/// How many servers have a group when its append is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SharedLogDurability {
    /// The primary and a standby, which PostgreSQL must be configured for.
    SynchronousStandby,
    /// The storage of the server is replicated below PostgreSQL.
    Storage,
    /// The primary alone: a failover can lose groups, which the hosts append again.
    Asynchronous,
}

/// The server, the cluster and the host of a shared log.
#[derive(Clone)]
pub struct PostgresSettings {
    /// The server and the user, such as `postgres://…`.
    pub url: String,
    /// The name of this host.
    pub host: String,
    /// The id of the store that the hosts share.
    pub store_id: u64,
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
}

fn failed(cause: impl fmt::Display) -> SharedLogError {
    SharedLogError(cause.to_string())
}

impl PostgresLog {
    /// The shared log with these settings. It connects on demand.
    #[must_use]
    pub const fn new(settings: PostgresSettings) -> Self {
        Self { settings, connection: None }
    }

    /// Creates the tables of a cluster, whose log continues after the groups of this host.
    ///
    /// # Errors
    /// The server does not answer, or has another cluster.
    pub fn create(&mut self, own: GroupsEnd) -> Result<(), SharedLogError> {
        self.connection = Some(connect(&self.settings)?);
        let (store_id, host) = (id_of(self.settings.store_id), self.settings.host.clone());
        let after = number(own.entries)?;
        self.call(move |client| {
            let mut transaction = client.transaction()?;
            transaction.batch_execute(TABLES)?;
            transaction.execute("INSERT INTO oracled_cluster VALUES ($1, $2)", &[&store_id, &PROTOCOL])?;
            let row = "INSERT INTO oracled_group VALUES ($1, $2, $3, $4, '', '')";
            transaction.execute(row, &[&START, &after, &own.root.as_slice(), &host])?;
            transaction.commit()
        })
    }

    /// Calls the server over the present connection, which an error ends.
    fn call<T: Send + 'static>(
        &mut self,
        call: impl FnOnce(&mut Client) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, SharedLogError> {
        let connection = self.connection.take().ok_or_else(|| failed("it is not connected"))?;
        let answer = connection.call(call)?;
        self.connection = Some(connection);
        Ok(answer)
    }
}

impl SharedLog for PostgresLog {
    fn connect(&mut self, own: GroupsEnd) -> Result<SharedTail, SharedLogError> {
        self.connection = Some(connect(&self.settings)?);
        let entries = number(own.entries)?;
        let row = self.call(move |client| client.query_one(COMPARE, &[&entries]))?;
        let compared = (|| {
            let root: Option<Vec<u8>> = row.try_get(0)?;
            let ends: (Option<i64>, Option<i64>) = (row.try_get(1)?, row.try_get(2)?);
            let cluster: (Option<i64>, Option<i32>) = (row.try_get(3)?, row.try_get(4)?);
            Ok::<_, Error>((root, ends, cluster))
        })();
        let (root, ends, cluster) = compared.map_err(failed)?;
        let settled = match (cluster, ends) {
            ((Some(store_id), Some(PROTOCOL)), (Some(first), Some(last)))
                if store_id == id_of(self.settings.store_id) =>
            {
                match root {
                    Some(root) if root == own.root => Ok(SharedTail::Follows(entry(last)?)),
                    None if last < entries => Ok(SharedTail::Lacks(entry(last)?)),
                    None if entries < first => Err(failed(format_args!(
                        "it begins at entry {first}, and this host ends at entry {entries}; join the cluster again from a backup"
                    ))),
                    _ => Ok(SharedTail::Forked),
                }
            }
            ((Some(_), Some(PROTOCOL)), _) => Err(failed("it is of another cluster")),
            ((_, Some(protocol)), _) => {
                Err(failed(format_args!("its protocol is {protocol}, and this host knows {PROTOCOL}")))
            }
            _ => Err(failed("it has no cluster; create it by `oraclectl cluster init`")),
        };
        if settled.is_err() {
            self.connection = None;
        }
        settled
    }

    fn append(&mut self, own: GroupsEnd, group: &SharedGroup) -> Result<SharedAppend, SharedLogError> {
        let SealedRows { key_id, bytes } = self.settings.keys.seal(self.settings.store_id, group)?;
        let (before, after) = (number(group.before)?, number(group.after)?);
        let (root, before_root, host) = (group.root, own.root, self.settings.host.clone());
        let appended = self.call(move |client| {
            client.query_opt(
                APPEND,
                &[&before, &after, &root.as_slice(), &host, &key_id, &bytes, &before_root.as_slice()],
            )
        })?;
        Ok(if appended.is_some() { SharedAppend::Appended } else { SharedAppend::Behind })
    }

    fn read(&mut self, after: u64, max_bytes: usize) -> Result<Vec<SharedGroup>, SharedLogError> {
        let (after, max_bytes) = (number(after)?, i64::try_from(max_bytes).unwrap_or(i64::MAX));
        let rows = self.call(move |client| client.query(READ, &[&after, &max_bytes]))?;
        let PostgresSettings { keys, store_id, .. } = &self.settings;
        let read = |row: &postgres::Row| {
            let numbers: (i64, i64) = (row.try_get(0).map_err(failed)?, row.try_get(1).map_err(failed)?);
            let root: Vec<u8> = row.try_get(2).map_err(failed)?;
            let sealed = SealedRows {
                key_id: row.try_get(3).map_err(failed)?,
                bytes: row.try_get(4).map_err(failed)?,
            };
            let root = root.try_into().map_err(|_| failed("the root of a group has another length"))?;
            let (before, after) = (entry(numbers.0)?, entry(numbers.1)?);
            let empty = SharedGroup { before, after, root, rows: Vec::new() };
            Ok(SharedGroup { rows: keys.open(*store_id, &empty, &sealed)?, ..empty })
        };
        rows.iter().map(read).collect()
    }

    fn tail(&mut self) -> Result<u64, SharedLogError> {
        let row = self.call(|client| client.query_one(TAIL, &[]))?;
        let last: Option<i64> = row.try_get(0).map_err(failed)?;
        entry(last.ok_or_else(|| failed("it has no cluster"))?)
    }
}

/// The number of an entry for PostgreSQL, which has signed numbers.
fn number(entry: u64) -> Result<i64, SharedLogError> {
    i64::try_from(entry).map_err(failed)
}

fn entry(number: i64) -> Result<u64, SharedLogError> {
    u64::try_from(number).map_err(failed)
}

/// The id of a store for PostgreSQL: the same bits.
const fn id_of(store_id: u64) -> i64 {
    store_id.cast_signed()
}
