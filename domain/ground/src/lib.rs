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
pub mod problem;
pub mod query;
pub mod record;
pub mod rejection;
pub mod run;
pub mod source;
pub mod source_state;
pub mod subject;
pub mod timeline;
pub mod value;
pub mod version_name;
pub mod wire;

use crate::freshness::FreshnessPolicy;
use crate::ontology::Ontology;
use crate::pipeline::{PipelineDefinition, PipelineState};
use crate::run::IngestionRun;
use crate::source::SourceRegistration;
use crate::source_state::SourceState;
use domain_base::row::{Row, Table};

/// The tables of the feature.
pub const TABLES: &[&Table] =
    &[SourceState::TABLE, PipelineState::TABLE, IngestionRun::TABLE, PipelineDefinition::TABLE];
/// The kinds of documents of the feature.
pub type Documents = (Ontology, SourceRegistration, FreshnessPolicy, PipelineDefinition);
