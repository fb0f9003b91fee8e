//! Live sources: whoever is asked about one thing while somebody waits, behind one small trait (RFC-0002, Part II).
//!
//! What a source answers is read by its adapter, a document; nothing is coded for one source. Nothing here decides whether an
//! answer counts beside others: that is `oracled_domain::verification`'s.

mod http;
mod signature;
mod verified;

pub use http::{ANSWER_MAX_BYTES, HttpOracles, LiveSettings};

use super::BoxFuture;
use super::web::WebError;
use jiff::Timestamp;
use oracled_domain::ground::source::OracleTier;
use oracled_domain::ground::value::Value;
use oracled_domain::verdict::health::Outcome;
use oracled_domain::verification::adapter::Ready;
use oracled_domain::verification::{KeptAnswer, Reply};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Whoever asks live sources.
pub trait LiveOracle: fmt::Debug + Send + Sync {
    /// Whether a source can be asked by `adapter`, as far as that is known without asking.
    ///
    /// # Errors
    /// What is wrong, and what is allowed.
    fn check(&self, adapter: &Ready) -> Result<(), WebError>;

    /// Asks one source one question. Dropping the future ends the call, and loses nothing but that.
    fn ask(&self, ask: LiveAsk) -> BoxFuture<'_, LiveAnswer>;
}

/// What a live source is asked, and by which adapter.
#[derive(Debug, Clone)]
pub struct LiveAsk {
    /// The adapter of the source, made ready.
    pub adapter: Arc<Ready>,
    /// How far the source is trusted, as registered.
    pub oracle_tier: OracleTier,
    /// The publisher of the answers, as registered: the first link of their chain of custody.
    pub authority: String,
    /// About which thing: the values of identity axes.
    pub thing: BTreeMap<String, Value>,
    /// As it was then; now where there is none.
    pub point_in_time: Option<Timestamp>,
    /// The last good answer to the same question.
    pub kept: Option<KeptAnswer>,
    /// For so long an answer is waited for, all attempts together.
    pub within: Duration,
    /// For which decision, for the service's log.
    pub execution_id: String,
}

/// What came of asking a live source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveAnswer {
    /// What it replied. A candidate has all that the source says of the thing, and no freshness: that is its policy's to say.
    pub reply: Reply,
    /// What is kept from now on in the place of `kept`; where there is none, that stays as it is.
    pub keep: Option<KeptAnswer>,
    /// What it says of the source's health; that it has timed out is judged by whoever has asked.
    pub outcome: Outcome,
    /// What was noted of the answer and did not keep it out.
    pub warnings: Vec<String>,
}

#[cfg(test)]
mod tests;
