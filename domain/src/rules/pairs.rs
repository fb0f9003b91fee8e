//! Pairs of opposites: the published ones, and those that a check asks for.

use super::claims::Place;

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

/// A pair that is asked for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) terms: [String; 2],
    /// Where each appears first.
    pub(super) places: [Option<Place>; 2],
}

/// The pairs that are asked for, and the ids that name none.
#[derive(Debug, Default)]
pub(super) struct Asked {
    pub(super) pairs: Vec<Pair>,
    pub(super) unknown: Vec<String>,
}
