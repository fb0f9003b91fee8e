//! Live sources: external services that are queried about one subject while the client waits (RFC-0002, Part II).
//!
//! A source's answers are parsed by its adapter, which is a document; no source needs code of its own. This
//! module does not decide whether an answer counts against others: `domain_verification` does.

mod http;
mod verified;

pub use http::{ANSWER_MAX_BYTES, HttpLiveOracle, LiveSettings};

use super::BoxFuture;
use super::web::WebError;
use domain_ground::source::OracleTier;
use domain_ground::value::AxisValue;
use domain_upstream::health::CircuitCallOutcome;
use domain_verification::adapter::ValidatedAdapter;
use domain_verification::{CachedAnswer, OracleReply};
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A client of live sources.
pub trait LiveOracle: fmt::Debug + Send + Sync {
    /// Checks whether `adapter` can be used, without sending a request.
    ///
    /// # Errors
    /// The fault in the adapter's endpoint or credential, and the allowed values.
    fn check(&self, adapter: &ValidatedAdapter) -> Result<(), WebError>;

    /// Queries one source. Dropping the future cancels the call and has no other effect.
    fn ask(&self, ask: LiveQuery) -> BoxFuture<'_, LiveAnswer>;
}

/// A query to a live source.
#[derive(Debug, Clone)]
pub struct LiveQuery {
    /// The source's adapter, validated.
    pub adapter: Arc<ValidatedAdapter>,
    /// The source's tier, as registered.
    pub oracle_tier: OracleTier,
    /// The publisher of the answers, as registered: the first link of their chain of custody.
    pub authority: String,
    /// The subject of the query: the values of its identity axes.
    pub identity: BTreeMap<String, AxisValue>,
    /// The time that the query is about; `None` for now.
    pub point_in_time: Option<Timestamp>,
    /// The last good answer to the same question.
    pub cached_answer: Option<CachedAnswer>,
    /// Timeout for all attempts together.
    pub timeout: Duration,
    /// The decision that the query belongs to, for the service's log.
    pub execution_id: String,
}

/// The result of querying a live source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveAnswer {
    /// The source's reply. A candidate contains all values that the source has of the subject, and no
    /// freshness: a policy determines that later.
    pub reply: OracleReply,
    /// The answer to store in the cache; `None` leaves the cached answer unchanged.
    pub answer_to_cache: Option<CachedAnswer>,
    /// The effect on the source's health. A timeout is [`CircuitCallOutcome::Neutral`] here: the caller
    /// decides about timeouts.
    pub outcome: CircuitCallOutcome,
    /// Findings about the answer that did not cause its rejection.
    pub warnings: Vec<String>,
}

#[cfg(test)]
mod tests;
