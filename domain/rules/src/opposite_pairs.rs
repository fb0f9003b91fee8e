//! Pairs of opposites: the published pairs, and the pairs of a check.

use super::claims::CandidateRange;

/// The published pairs (seed: "Predefined Contradiction Pairs").
pub(super) const PAIRS: [(&str, &str); 10] = [
    ("always", "never"),
    ("true", "false"),
    ("increase", "decrease"),
    ("positive", "negative"),
    ("valid", "invalid"),
    ("correct", "incorrect"),
    ("success", "failure"),
    ("above", "below"),
    ("present", "absent"),
    ("enabled", "disabled"),
];

/// A requested pair.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OppositePair {
    pub(super) terms: [String; 2],
    /// The first match of each term.
    pub(super) places: [Option<CandidateRange>; 2],
}

/// The requested pairs, and the ids that match no pair.
#[derive(Debug, Default)]
pub(super) struct RequestedPairs {
    pub(super) pairs: Vec<OppositePair>,
    pub(super) unknown: Vec<String>,
}
