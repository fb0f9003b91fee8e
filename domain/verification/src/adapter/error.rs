//! The faults of an adapter.

use super::template::EndpointError;
use domain_ground::id::SourceId;

/// Why an adapter cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AdapterError {
    /// The adapter is for another source.
    #[error("`oracle_id` is {named}, but must be {given}")]
    OtherSource {
        /// The id in the document.
        named: SourceId,
        given: SourceId,
    },
    /// The endpoint is invalid.
    #[error("`endpoint`: {0}")]
    Endpoint(#[from] EndpointError),
    /// The normalization does not fit the ontology.
    #[error("{0}")]
    Definition(String),
    /// An answer could not be compared with the question on an identity axis.
    #[error("identity axis `{axis}`: {fault}")]
    Identity {
        axis: String,
        /// The fault, and what is allowed.
        fault: &'static str,
    },
    /// The location of metadata is invalid.
    #[error("`{field}`: {fault}")]
    Place {
        /// The field of the document.
        field: &'static str,
        fault: String,
    },
    /// The location of metadata is not covered by the signature.
    #[error(
        "`{field}` is a header, which the signature does not cover, so that an intermediary could change it; allowed: a `path` \
         into the signed content"
    )]
    Unsigned {
        /// The field of the document.
        field: &'static str,
    },
    /// A signature alone does not prove that an answer is current.
    #[error(
        "`signature` without `issued_at` or `nonce`: any answer that the source ever signed would be accepted as current; \
         set `issued_at` or `nonce`"
    )]
    Replayable,
    /// A signature alone does not prove that an answer is about the requested time.
    #[error(
        "`signature` with `{{point_in_time}}` in `endpoint`: a signed answer about one time would be accepted as the answer about \
         another time; set `normalization.valid_time` or `nonce`"
    )]
    AnyTime,
    /// A nonce is sent but not checked, or checked but not sent.
    #[error(
        "`nonce` and `{{nonce}}` in `endpoint` belong together: a nonce that is sent must be returned; set both or neither"
    )]
    Nonce,
    /// Only one of `issued_at` and `max_issue_age_seconds` is set.
    #[error("`issued_at` and `max_issue_age_seconds` belong together: {0}")]
    IssueAge(&'static str),
    /// A time span is out of range.
    #[error("`{field}` is {seconds}; allowed: {min_s} to {max_s} seconds")]
    Bound {
        /// The field of the document.
        field: &'static str,
        /// The given value, in seconds.
        seconds: u64,
        /// The minimum, in seconds.
        min_s: u64,
        /// The maximum, in seconds.
        max_s: u64,
    },
    /// An answer could be used for longer, or when it is older, than its ontology allows.
    #[error("`{field}` is {seconds}; the ontology allows `{axis}` to be at most {limit_s} s old")]
    Ttl {
        /// The field of the document.
        field: &'static str,
        /// The given value, in seconds.
        seconds: u64,
        /// The axis with the smallest limit.
        axis: String,
        /// The limit of that axis, in seconds.
        limit_s: u64,
    },
    /// A key cannot be used.
    #[error("`signature.keys`: {0}")]
    Keys(String),
}
