//! Records that are not taken: nothing is dropped without a word (RFC, ingestion invariant 3).

use crate::base::digest::Sha256Hex;
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

/// The longest reason, in characters.
const REASON_MAX_CHARS: usize = 500;
/// The longest place, in characters: there is room for every path of a definition, and not for every name in a payload.
const PLACE_MAX_CHARS: usize = 512;

/// Why a record is not taken, or what is noted of one that is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejection {
    /// What it did not keep to.
    pub rule: Rule,
    /// On which axis, or in which field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// What was found, and what would be taken.
    pub reason: String,
    /// What would be taken, in the definition's words alone, for whom nothing of the record is told; nothing where there are no
    /// such words. It is not kept: `reason` says it, too.
    #[serde(skip)]
    pub bound: Option<String>,
}

/// A record that is not taken, as it is kept with its run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reject {
    /// The record's number in the payload, from 0.
    pub position: u64,
    /// Where its bytes begin in the payload.
    pub offset: u64,
    /// How many there are.
    pub len: u32,
    /// Their SHA-256.
    pub raw_hash: Sha256Hex,
    /// Why.
    #[serde(flatten)]
    pub rejection: Rejection,
}

/// What a record has to keep to, in the order in which it is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Rule {
    /// It can be read in the payload's format.
    Readable,
    /// The JSON Schema.
    Schema,
    /// The fields that must be there.
    RequiredField,
    /// The mapping of fields to axes.
    Mapping,
    /// A conversion of units.
    UnitConversion,
    /// The reciprocal of zero, or one that rounds to zero.
    Reciprocal,
    /// A table of words.
    EnumMapping,
    /// The forms of dates.
    DateParsing,
    /// The type of an axis.
    AxisType,
    /// A check behind normalization.
    Check,
    /// When it is valid.
    ValidTime,
    /// No other record of the run bears its key with other content.
    DuplicateKey,
}

impl Rejection {
    /// A rejection by `rule` at `place`, with the beginning of `reason`; of `place`, too, where it is a payload's own.
    #[must_use]
    pub fn new(rule: Rule, place: Option<&str>, reason: impl AsRef<str>) -> Self {
        let beginning = |text: &str, chars: usize| text.chars().take(chars).collect();
        let place = place.map(|place| beginning(place, PLACE_MAX_CHARS));
        Self { rule, place, reason: beginning(reason.as_ref(), REASON_MAX_CHARS), bound: None }
    }

    /// The same with the bound that was broken.
    #[must_use]
    pub fn of_bound(self, bound: impl AsRef<str>) -> Self {
        Self { bound: Some(bound.as_ref().chars().take(REASON_MAX_CHARS).collect()), ..self }
    }
}
