//! Requests for facts from sources.

use crate::ground::query::OracleQuery;
use crate::verification::VerifyRequest;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// An entry of `facts_from`: `{"query": …}` or `{"verify": …}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "FactsFromInput", rename_all = "snake_case")]
pub enum FactsFrom {
    /// The records of a source, as with `POST /v1/query`.
    Query(Box<OracleQuery>),
    /// A decision over several sources, as with `POST /v1/verify`.
    Verify(Box<VerifyRequest>),
}

// serde's own error for an unknown enum variant would not name the entry, so this struct is parsed first
/// A request for facts: either a query of a source or a verification by a workflow.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(min_properties = 1, max_properties = 1)]
struct FactsFromInput {
    /// The records of a source, as with `POST /v1/query`.
    #[schema(nullable = false)]
    query: Option<Box<OracleQuery>>,
    /// A decision over several sources, as with `POST /v1/verify`.
    #[schema(nullable = false)]
    verify: Option<Box<VerifyRequest>>,
}

impl PartialSchema for FactsFrom {
    fn schema() -> RefOr<Schema> {
        FactsFromInput::schema()
    }
}

impl ToSchema for FactsFrom {
    fn name() -> Cow<'static, str> {
        "FactsFrom".into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        FactsFromInput::schemas(schemas);
    }
}

/// An entry has neither or both.
#[derive(Debug, thiserror::Error)]
#[error("an entry of `facts_from` is invalid: it has either `query` or `verify`")]
struct FactsFromError;

impl TryFrom<FactsFromInput> for FactsFrom {
    type Error = FactsFromError;

    fn try_from(entry: FactsFromInput) -> Result<Self, FactsFromError> {
        match entry {
            FactsFromInput { query: Some(query), verify: None } => Ok(Self::Query(query)),
            FactsFromInput { query: None, verify: Some(verify) } => Ok(Self::Verify(verify)),
            FactsFromInput { .. } => Err(FactsFromError),
        }
    }
}
