//! The sections of the whole daemon: requests and connections, the store, supervision.

use super::{ConfigError, Configuration, Section, check_range};
use actors_platform::guardian::SupervisionLimits;
use domain_base::session_id::SESSION_ID_MAX_CHARS;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use utoipa::ToSchema;

/// The limits; each has its own error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LimitsSection {
    /// Maximum length of a request's body.
    #[schema(minimum = 1024, maximum = 67_108_864)]
    pub body_bytes: usize,
    /// Memory for the bodies of all requests together; at least `limits.body_bytes`. The responses of the rules and the
    /// pages of queries each have a limit of the same size.
    ///
    /// A request whose body does not fit is answered with 503. A response of the rules keeps its memory until the client
    /// has read it. A page of a query reserves twice its maximum size, and is answered with 503 if that memory does not
    /// become free within 5 s. While requests wait for this memory, a client is disconnected if it leaves its response
    /// unread for 2 s, or reads less than 1 MiB/s for 2 s.
    #[schema(minimum = 1024, maximum = 1_099_511_627_776u64)]
    pub bodies_bytes: usize,
    /// Maximum length of a query.
    #[schema(minimum = 1, maximum = 1_048_576)]
    pub query_bytes: usize,
    /// Maximum length of a session id.
    #[schema(minimum = 1, maximum = 255)]
    pub session_id_chars: usize,
    /// Maximum length of all headers of a request together. A request that exceeds twice this limit gets 431
    /// without a problem document, and its connection ends.
    #[schema(minimum = 1024, maximum = 262_144)]
    pub header_bytes: usize,
    /// Maximum number of headers of a request. A request that exceeds twice this limit gets 431 without a
    /// problem document, and its connection ends.
    #[schema(minimum = 8, maximum = 1000)]
    pub headers: usize,
    /// Maximum number of connections to the routes' socket. A further one gets 503, or is closed at once while 32 such
    /// responses are being written. Each socket accepts at most 16 connections in 5 ms; others wait in the kernel's
    /// backlog.
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub connections: usize,
    /// Maximum number of connections to the control socket and, counted separately, to the socket for reviewers, as for `limits.connections`.
    #[schema(minimum = 1, maximum = 10_000)]
    pub control_connections: usize,
    /// Maximum number of verdicts in flight.
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub in_flight: usize,
    /// Time that a connection may be idle, may take for a request's headers, or (on the routes' socket) may leave a
    /// response unread. A client that is sending may leave it unread for 10 times as long.
    #[schema(minimum = 1, maximum = 3600)]
    pub idle_s: u64,
    /// Time limit of a whole request.
    #[schema(minimum = 1, maximum = 3600)]
    pub request_s: u64,
    /// Time that a stop waits for requests in flight, which include the generation of verdicts
    /// (`model.deadline_ms`).
    #[schema(minimum = 0, maximum = 3600)]
    pub shutdown_s: u64,
}

impl Default for LimitsSection {
    fn default() -> Self {
        Self {
            body_bytes: 1024 * 1024,
            bodies_bytes: 64 * 1024 * 1024,
            query_bytes: 32 * 1024,
            session_id_chars: SESSION_ID_MAX_CHARS,
            header_bytes: 16 * 1024,
            headers: 64,
            connections: 16_384,
            control_connections: 64,
            in_flight: 1024,
            idle_s: 60,
            request_s: 30,
            shutdown_s: 30,
        }
    }
}

impl Section for LimitsSection {
    fn key(&self) -> &'static str {
        "limits"
    }

    fn check_limits(&self, _: &dyn Configuration) -> Vec<ConfigError> {
        let checked = check_range("limits.bodies_bytes", self.bodies_bytes, self.body_bytes..=1 << 40);
        checked.err().into_iter().collect()
    }
}

/// Memory and disk space of the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StorageSection {
    /// Size of the database's page cache.
    #[schema(minimum = 1_048_576, maximum = 1_099_511_627_776u64)]
    pub cache_bytes: u64,
    /// Size of the cache of recent verdicts.
    #[schema(minimum = 65_536, maximum = 1_099_511_627_776u64)]
    pub hot_bytes: u64,
    /// Size of the cache of facts of sources, for lookups of single facts.
    #[schema(minimum = 1_048_576, maximum = 1_099_511_627_776u64)]
    pub facts_cache_bytes: u64,
    /// Minimum free space on the disk of the state directory. Below it, new work is answered with 503
    /// `storage_unavailable`; reads continue.
    #[schema(minimum = 0, maximum = 1_152_921_504_606_846_976u64)]
    pub min_free_bytes: u64,
    /// Whether `oraclectl erase` also erases the ids of sessions, in log entries that are written from now on. Set it before the
    /// first session.
    pub erase_session_ids: bool,
}

impl Default for StorageSection {
    fn default() -> Self {
        Self {
            cache_bytes: 16 * 1024 * 1024,
            hot_bytes: 32 * 1024 * 1024,
            facts_cache_bytes: 64 * 1024 * 1024,
            min_free_bytes: 64 * 1024 * 1024,
            erase_session_ids: false,
        }
    }
}

impl Section for StorageSection {
    fn key(&self) -> &'static str {
        "storage"
    }
}

/// When a panicking actor ends the daemon, so that systemd restarts it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SupervisionSection {
    /// Maximum number of panics of one actor in the window. One more ends the daemon with a failure.
    #[schema(minimum = 0, maximum = 1_000_000)]
    pub max_panics: usize,
    /// Length of the window.
    #[schema(minimum = 1, maximum = 86_400)]
    pub window_s: u64,
    /// Maximum pause before an actor is restarted.
    #[schema(minimum = 0, maximum = 60_000)]
    pub max_pause_ms: u64,
}

impl Default for SupervisionSection {
    fn default() -> Self {
        Self { max_panics: 10, window_s: 60, max_pause_ms: 1000 }
    }
}

impl Section for SupervisionSection {
    fn key(&self) -> &'static str {
        "supervision"
    }
}

impl SupervisionSection {
    /// The limits of supervision.
    #[must_use]
    pub const fn to_limits(&self) -> SupervisionLimits {
        SupervisionLimits {
            max_panics: self.max_panics,
            window: Duration::from_secs(self.window_s),
            max_pause: Duration::from_millis(self.max_pause_ms),
        }
    }
}
