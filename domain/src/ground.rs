//! The ground-truth layer: what registered sources say, exactly, since when, and where it comes from (RFC-0002, Part I).
//!
//! A source is fed by runs, each of which reads one payload through one pipeline. What a run says of a record is never
//! rewritten: since when and until when it holds is computed from all that was said and from the source's releases.

pub mod axis;
pub mod check;
pub mod format;
pub mod frequency;
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
pub mod timeline;
pub mod value;

use crate::base::digest::Sha256Hex;
use serde::Serialize;

/// The SHA-256 of a document's JSON with its members in their order, whatever order it was written in.
pub(crate) fn digest_of_json(document: &impl Serialize) -> Sha256Hex {
    // a `Value` keeps the members of objects in their order
    let value = serde_json::to_value(document).expect("a document is plain data with text for keys");
    Sha256Hex::of(value.to_string().as_bytes())
}
