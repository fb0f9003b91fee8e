//! Rejected records and warnings: no record is dropped silently (RFC, ingestion invariant 3).

use domain_base::digest::Sha256Hex;
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

/// The maximum length of a reason, in characters.
const REASON_MAX_CHARS: usize = 500;
/// The number of records of one key that a reason lists.
const NAMED_MAX: usize = 10;
/// The maximum length of a place, in characters. Every path of a definition fits; a long name in a payload is cut off.
const PLACE_MAX_CHARS: usize = 512;

/// Why a record is rejected, or a warning about an accepted record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RecordRejection {
    /// The rule that the record breaks.
    pub rule: RecordRule,
    /// The axis or the field, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// The value found, and what would be valid.
    pub reason: String,
    /// The violated limit in the words of the definition, without values of the record, for readers who may not see
    /// these. `None` if there are no such words. It is not stored, because `reason` contains the same information.
    #[serde(skip)]
    pub bound: Option<String>,
}

/// A rejected record, as it is stored with its run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RejectedRecord {
    /// The number of the record in the payload, from 0.
    pub position: u64,
    /// The offset of its first byte in the payload.
    pub offset: u64,
    /// Its length in bytes.
    pub len: u32,
    /// The SHA-256 of its bytes.
    pub raw_hash: Sha256Hex,
    /// The reason for the rejection.
    #[serde(flatten)]
    pub rejection: RecordRejection,
}

/// The rules for records, in the order in which they are checked.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    IntoStaticStr,
    utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum RecordRule {
    /// The record is readable in the payload's format.
    Readable,
    /// The record matches the JSON Schema.
    Schema,
    /// The required fields are present.
    RequiredField,
    /// The fields can be mapped to axes.
    Mapping,
    /// The units can be converted.
    UnitConversion,
    /// The reciprocal exists and does not round to zero.
    Reciprocal,
    /// The number is written with the marks of the normalizer.
    NumberParsing,
    /// The table of words has an entry.
    EnumMapping,
    /// The date has one of the accepted formats.
    DateParsing,
    /// The value has the type of its axis.
    AxisType,
    /// The normalized values pass a check.
    Check,
    /// The period of validity is readable and not empty.
    ValidTime,
    /// No other record of the run has the same key with other content.
    DuplicateKey,
}

impl RecordRejection {
    /// A rejection by `rule` at `place`. Both `place` and `reason` are cut off at their maximum length.
    #[must_use]
    pub fn new(rule: RecordRule, place: Option<&str>, reason: impl AsRef<str>) -> Self {
        let beginning = |text: &str, chars: usize| text.chars().take(chars).collect();
        let place = place.map(|place| beginning(place, PLACE_MAX_CHARS));
        Self { rule, place, reason: beginning(reason.as_ref(), REASON_MAX_CHARS), bound: None }
    }

    /// The rejection of `members` records with one key and different values. `positions` begins with the first of them.
    #[must_use]
    pub fn same_key(members: u64, positions: impl Iterator<Item = u64>) -> Self {
        // as the list of rejected records counts them, from 1
        let named: Vec<_> = positions.take(NAMED_MAX).map(|position| (position + 1).to_string()).collect();
        let reason =
            format!("{members} records have the same key and different values: {}", named.join(", "));
        Self::new(RecordRule::DuplicateKey, None, reason)
    }

    /// The rejection with the violated limit.
    #[must_use]
    pub fn with_bound(self, bound: impl AsRef<str>) -> Self {
        Self { bound: Some(bound.as_ref().chars().take(REASON_MAX_CHARS).collect()), ..self }
    }
}
