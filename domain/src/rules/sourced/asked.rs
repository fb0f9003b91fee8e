//! What a request asks for facts.

use crate::ground::query::OracleQuery;
use crate::verification::VerifyRequest;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// An entry of `facts_from`: `{"query": …}` or `{"verify": …}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Entry", rename_all = "snake_case")]
pub enum FactsFrom {
    /// What a source says, as of `POST /v1/query`.
    Query(Box<OracleQuery>),
    /// What several sources come to, as of `POST /v1/verify`.
    Verify(Box<VerifyRequest>),
}

// An entry as it is written: serde tells what is wrong with an enum in words that nobody can place.
/// Who is asked for facts: either a source or a workflow.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = FactsFrom, min_properties = 1, max_properties = 1)]
struct Entry {
    /// What a source says, as of `POST /v1/query`.
    #[schema(nullable = false)]
    query: Option<Box<OracleQuery>>,
    /// What several sources come to, as of `POST /v1/verify`.
    #[schema(nullable = false)]
    verify: Option<Box<VerifyRequest>>,
}

impl PartialSchema for FactsFrom {
    fn schema() -> RefOr<Schema> {
        Entry::schema()
    }
}

impl ToSchema for FactsFrom {
    fn name() -> Cow<'static, str> {
        Entry::name()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        Entry::schemas(schemas);
    }
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
