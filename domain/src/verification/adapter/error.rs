//! Why an adapter cannot be used.

use super::template::BadTemplate;
use crate::ground::id::SourceId;

/// Why an adapter cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadAdapter {
    /// It is for another source.
    #[error("`oracle_id` is {named}, and not {given}")]
    OtherSource {
        /// Which one it names.
        named: SourceId,
        /// Whose it should be.
        given: SourceId,
    },
    /// Nobody can be asked there.
    #[error("`endpoint`: {0}")]
    Endpoint(#[from] BadTemplate),
    /// What is read cannot become values of the ontology.
    #[error("{0}")]
    Definition(String),
    /// An identity axis is not held against what was asked for.
    #[error("identity axis `{axis}`: {fault}")]
    Identity {
        /// Which one.
        axis: String,
        /// What is wrong.
        fault: &'static str,
    },
    /// A place cannot be found.
    #[error("`{field}`: {fault}")]
    Place {
        /// Where it stands.
        field: &'static str,
        /// What is wrong with it.
        fault: String,
    },
    /// A place is not within what is signed.
    #[error(
        "`{field}` is a header, which the signature does not cover, so that anybody on the way could change it; allowed: a \
         `path` into what is signed"
    )]
    Unsigned {
        /// Where it stands.
        field: &'static str,
    },
    /// A signature alone does not make an answer one of now.
    #[error(
        "`signature` without `issued_at` or `nonce`: whatever the source ever signed would be taken for its answer of now; \
         say where an answer says when it was issued, or where it brings back a nonce"
    )]
    Replayable,
    /// A signature alone does not make an answer one about the time that was asked for.
    #[error(
        "`signature` with `{{point_in_time}}` in `endpoint`: what the source signed about one time would be taken for its answer \
         about another; say by `normalization.valid_time` where an answer says as of when it holds, or where it brings back a \
         `nonce`"
    )]
    AnyTime,
    /// A nonce is sent and not looked at, or looked at and not sent.
    #[error("`nonce` and the place `{{nonce}}` in `endpoint` belong together: what is sent must come back")]
    Nonce,
    /// Nothing bounds how old an issue may be, or there is none.
    #[error("`issued_at` and `max_issue_age_seconds` belong together: {0}")]
    IssueAge(&'static str),
    /// A bound is out of range.
    #[error("`{field}` is {seconds}; allowed: {min_s} to {max_s} seconds")]
    Bound {
        /// Where it stands.
        field: &'static str,
        /// What it is.
        seconds: u64,
        /// The least.
        min_s: u64,
        /// The most.
        max_s: u64,
    },
    /// An answer would be taken for longer, or when it is older, than its ontology allows.
    #[error("`{field}` is {seconds}; by the ontology `{axis}` may be {limit_s} s old at the most")]
    Ttl {
        /// Where it stands.
        field: &'static str,
        /// What it is.
        seconds: u64,
        /// On which axis that is too long.
        axis: String,
        /// The most there.
        limit_s: u64,
    },
    /// A key cannot be used.
    #[error("`signature.keys`: {0}")]
    Keys(String),
}
