//! The ground-truth layer: the statements of registered sources, with their validity and provenance (RFC-0002, Part I).
//!
//! Each run reads one payload of a source through one pipeline. The statements of a run are never rewritten: the
//! validity of a record is computed from all statements and from the source's releases.

pub mod axis;
pub mod axis_effect;
pub mod event;
pub mod format;
pub mod freshness;
pub mod gates;
pub mod id;
pub mod normalize;
pub mod ontology;
pub mod path;
pub mod pipeline;
pub mod provenance;
pub mod query;
pub mod record;
pub mod rejection;
pub mod row;
pub mod run;
pub mod source;
pub mod source_state;
pub mod timeline;
pub mod upkeep;
pub mod value;

use crate::base::digest::Sha256Hex;
use crate::base::row::{Row, Table};
use crate::ground::pipeline::PipelineDefinition;
use crate::ground::run::IngestionRun;
use crate::ground::source_state::SourceState;
use serde::Serialize;

/// The SHA-256 of a document's JSON with sorted members, so that the written order has no effect.
pub(crate) fn digest_of_json(document: &impl Serialize) -> Sha256Hex {
    // a `Value` sorts the members of objects
    let value = serde_json::to_value(document).expect("a document is plain data with string keys");
    Sha256Hex::of(value.to_string().as_bytes())
}

/// The tables of the feature.
pub const TABLES: &[&Table] = &[SourceState::TABLE, IngestionRun::TABLE, PipelineDefinition::TABLE];
