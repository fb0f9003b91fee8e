//! The tables of a cluster, and what each connection compares with them.

use crate::{PostgresSettings, refused};
use postgres::{Error, Row};
use store_log::SharedLogError;

pub(crate) const NO_CLUSTER: &str = "it has no cluster; check the database in the URL, since other hosts may use another one. If the server has lost the cluster, stop all \
hosts, and run `oraclectl cluster init --reset` on the one with the most entries";

/// The tables of a cluster. All times are those of the server.
pub(crate) const TABLES: &str = "
CREATE TABLE IF NOT EXISTS oracled_cluster (
    store_id bigint PRIMARY KEY,
    protocol integer NOT NULL,
    log_key text NOT NULL,
    held_key text NOT NULL,
    epoch text,
    epoch_since timestamptz,
    epoch_seen timestamptz,
    mark bigint NOT NULL,
    one boolean NOT NULL DEFAULT true UNIQUE CHECK (one)
);
CREATE TABLE IF NOT EXISTS oracled_group (
    before bigint PRIMARY KEY,
    after bigint NOT NULL UNIQUE,
    root bytea NOT NULL,
    host text NOT NULL,
    key_id text NOT NULL,
    bytes bytea NOT NULL,
    schema integer NOT NULL,
    appended timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE TABLE IF NOT EXISTS oracled_host (
    host text PRIMARY KEY,
    instance bytea NOT NULL,
    version text,
    schema integer,
    applied bigint,
    root bytea,
    clock_offset_ms bigint,
    removed bigint,
    config text,
    seen timestamptz NOT NULL,
    settled text,
    state text NOT NULL CHECK (state IN ('live', 'removed', 'left'))
);
CREATE TABLE IF NOT EXISTS oracled_lease (
    name text PRIMARY KEY,
    instance bytea NOT NULL,
    host text NOT NULL,
    until timestamptz NOT NULL
);
CREATE TABLE IF NOT EXISTS oracled_key (
    id text PRIMARY KEY,
    digest bytea NOT NULL,
    host text NOT NULL
);
CREATE TABLE IF NOT EXISTS oracled_meter (
    name text PRIMARY KEY,
    due timestamptz NOT NULL
);
";
/// Removes the whole cluster, of which a host has all.
pub(crate) const DROP: &str = "DROP TABLE IF EXISTS oracled_key, oracled_meter, oracled_lease, oracled_host, oracled_group, oracled_cluster";
/// The version of the tables and of the form of a group.
pub(crate) const PROTOCOL: i32 = 2;

pub(crate) const CLUSTER: &str = "SELECT store_id, protocol, log_key, held_key FROM oracled_cluster";

/// The keys that all hosts of a cluster have. Neither text is secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterIdentity {
    /// The public key of the log.
    pub log_key: String,
    /// A digest of the key of held verdicts.
    pub held_key: String,
}

/// The cluster of a server.
#[derive(Debug)]
pub(crate) struct ClusterRow {
    store_id: i64,
    protocol: i32,
    identity: ClusterIdentity,
}

/// The state of a host, and whether its row is of this process.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) state: String,
    pub(crate) is_own: bool,
}

impl ClusterRow {
    /// The cluster in the four columns of a row from `first`.
    pub(crate) fn read(row: &Row, first: usize) -> Result<Option<Self>, Error> {
        let Some(store_id) = row.try_get(first)? else { return Ok(None) };
        let (log_key, held_key) = (row.try_get(first + 2)?, row.try_get(first + 3)?);
        let identity = ClusterIdentity { log_key, held_key };
        Ok(Some(Self { store_id, protocol: row.try_get(first + 1)?, identity }))
    }
}

impl Member {
    /// The member in the two columns of a row from `first`.
    pub(crate) fn read(row: &Row, first: usize) -> Result<Option<Self>, Error> {
        let Some(state) = row.try_get(first)? else { return Ok(None) };
        Ok(Some(Self { state, is_own: row.try_get(first + 1)? }))
    }

    /// Whether a host is a member of its cluster, by this process.
    pub(crate) fn check(member: Option<&Self>, host: &str) -> Result<(), SharedLogError> {
        let Some(Self { state, is_own }) = member else {
            return Err(refused(format_args!("its cluster has no host {host}")));
        };
        match state.as_str() {
            "live" if *is_own => Ok(()),
            "live" => Err(refused(format_args!(
                "another process has taken the name {host}; stop that one, or set another `cluster.host` and join with a backup"
            ))),
            "removed" => Err(refused(format_args!(
                "the host {host} was removed from the cluster; let it join again with a backup of another host"
            ))),
            _ => Err(refused(format_args!(
                "the host {host} has left the cluster; let it join again with a backup of another host"
            ))),
        }
    }
}

impl PostgresSettings {
    /// Whether the cluster is that of this host.
    pub(crate) fn check_cluster(&self, cluster: Option<&ClusterRow>) -> Result<(), SharedLogError> {
        let Some(ClusterRow { store_id, protocol, identity }) = cluster else {
            return Err(refused(NO_CLUSTER));
        };
        let another_key = |key, file| {
            Err(refused(format_args!(
                "its key of {key} is another one; give this host the key `{file}` of the other hosts"
            )))
        };
        if *protocol != PROTOCOL {
            Err(refused(format_args!(
                "its protocol is {protocol}, and this host knows {PROTOCOL}; run the same version of oracled on all hosts, or replace it with \
                 `oraclectl cluster init --reset`"
            )))
        } else if *store_id != id_of(self.store_id) {
            Err(refused("it is of another cluster"))
        } else if identity.log_key != self.identity.log_key {
            another_key("the log", "log.key")
        } else if identity.held_key != self.identity.held_key {
            another_key("held verdicts", "held.key")
        } else {
            Ok(())
        }
    }
}

/// The id of a store for PostgreSQL: the same bits.
pub(crate) const fn id_of(store_id: u64) -> i64 {
    store_id.cast_signed()
}
