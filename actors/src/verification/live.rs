//! Live sources: whoever answers by itself when it is asked.

use crate::upstream::BoxFuture;
use domain::ground::id::SourceId;
use domain::ground::value::Value;
use domain::health::Outcome;
use domain::verification::{KeptAnswer, Reply};
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::fmt;

/// Asks live sources.
pub trait LiveOracle: fmt::Debug + Send + Sync {
    /// Asks one once, as often as that may help; it is dropped where that takes too long.
    fn ask(&self, ask: LiveAsk) -> BoxFuture<'_, LiveAnswer>;
}

/// What a live source is asked.
#[derive(Debug, Clone)]
pub struct LiveAsk {
    /// Which source.
    pub oracle_id: SourceId,
    /// Of which thing.
    pub thing: BTreeMap<String, Value>,
    /// As it was then; now where there is none.
    pub point_in_time: Option<Timestamp>,
    /// The last good answer to this.
    pub kept: Option<KeptAnswer>,
    /// For which decision.
    pub execution_id: String,
}

/// What came of it.
#[derive(Debug)]
pub struct LiveAnswer {
    /// What it replied.
    pub reply: Reply,
    /// What is to be kept of it.
    pub keep: Option<KeptAnswer>,
    /// What that says of its health.
    pub outcome: Outcome,
}
