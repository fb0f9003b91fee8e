//! What a request asks for facts.

use crate::ground::query::OracleQuery;
use crate::verification::VerifyRequest;
use serde::{Deserialize, Serialize};

/// An entry of `facts_from`: `{"query": …}` or `{"verify": …}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Entry", rename_all = "snake_case")]
pub enum FactsFrom {
    /// What a source says, as of `POST /v1/query`.
    Query(Box<OracleQuery>),
    /// What several sources come to, as of `POST /v1/verify`.
    Verify(Box<VerifyRequest>),
}

/// An entry as it is written: serde tells what is wrong with an enum in words that nobody can place.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    query: Option<Box<OracleQuery>>,
    verify: Option<Box<VerifyRequest>>,
}

/// Why an entry is none.
#[derive(Debug, thiserror::Error)]
#[error("an entry of `facts_from` has either `query` or `verify`")]
struct NeitherOrBoth;

impl TryFrom<Entry> for FactsFrom {
    type Error = NeitherOrBoth;

    fn try_from(entry: Entry) -> Result<Self, NeitherOrBoth> {
        match entry {
            Entry { query: Some(query), verify: None } => Ok(Self::Query(query)),
            Entry { query: None, verify: Some(verify) } => Ok(Self::Verify(verify)),
            Entry { .. } => Err(NeitherOrBoth),
        }
    }
}
