//! The outcomes of a replay.

use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt;

/// A decision that was computed again.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplayedDecision {
    /// The number of the entry.
    pub seq: u64,
    pub event: &'static str,
    pub outcome: ReplayOutcome,
}

/// The outcome of the replay of one entry.
#[derive(Debug, Clone, PartialEq)]
pub enum ReplayOutcome {
    /// All results in the entry follow from its inputs.
    Reproduced,
    /// The results that follow from the available inputs are the logged ones; the others need this input.
    ReproducedInPart(MissingInput),
    /// Members have other values.
    Different(Vec<MemberDifference>),
    /// No result can be computed without this input.
    NotReproducible(MissingInput),
}

/// A member of an entry that has another value.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MemberDifference {
    /// The path of the member.
    pub member: String,
    /// The value in the entry; null if it is missing.
    pub logged: Value,
    /// The value that was computed; null if there is none.
    pub computed: Value,
}

/// An input of a decision that is not available.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum MissingInput {
    /// The values of these members were erased or withheld.
    HiddenValues(BTreeSet<String>),
    /// The text of a rejected verdict is never stored.
    RejectedText,
    /// The text of the verdict is not stored with the entry.
    VerdictText,
    /// The log has only digests of the text and of the facts, and they are not stored with the entry.
    TextAndFacts,
    /// The policy or a limit in the configuration.
    Configuration,
    /// The entries that the decision follows from.
    OtherEntries,
    /// The first answer of a source that was queried again.
    ReplacedAnswer,
    /// The order of regenerations that ran at the same time.
    RegenerationOrder,
}

impl fmt::Display for MissingInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::HiddenValues(members) => {
                let members: Vec<_> = members.iter().map(|member| format!("`{member}`")).collect();
                return write!(f, "values erased or withheld: {}", members.join(", "));
            }
            Self::RejectedText => "the text of a rejected verdict is never stored",
            Self::VerdictText => "the text of the verdict is not stored with the entry",
            Self::TextAndFacts => "the log has only digests of the text and the facts",
            Self::Configuration => "the configuration is not in the log",
            Self::OtherEntries => "the entries that the decision follows from are missing",
            Self::ReplacedAnswer => "the first answer of a source that was queried again is not stored",
            Self::RegenerationOrder => "the order of concurrent regenerations is not in the log",
        })
    }
}

impl Serialize for MissingInput {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl ReplayOutcome {
    /// The outcome of a comparison with these differences. Results that need `missing` were not compared.
    pub fn of(differences: Vec<MemberDifference>, missing: Option<MissingInput>) -> Self {
        match missing {
            _ if !differences.is_empty() => Self::Different(differences),
            Some(missing) => Self::ReproducedInPart(missing),
            None => Self::Reproduced,
        }
    }
}
