//! Every rule by its id. A rule that was published never changes: what is to be better is a new rule with a new id
//! (seed: "Extensibility").

use super::result::Invariant;
use crate::digest::Sha256Hex;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::fmt;
use std::str::FromStr;

/// A rule's id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum RuleId {
    /// Zero unsupported claims.
    #[serde(rename = "RULE-PREC-001")]
    Prec001,
    /// Patterns that must be found.
    #[serde(rename = "RULE-PREC-002")]
    Prec002,
    /// Patterns that must not be found.
    #[serde(rename = "RULE-PREC-003")]
    Prec003,
    /// Fact sourcing, claim by claim.
    #[serde(rename = "RULE-PREC-004")]
    Prec004,
    /// Direct negation.
    #[serde(rename = "RULE-CONT-001")]
    Cont001,
    /// Incompatible constraints.
    #[serde(rename = "RULE-CONT-002")]
    Cont002,
    /// Assertion, then infirmation.
    #[serde(rename = "RULE-CONT-003")]
    Cont003,
}

/// How a rule checks, in the seed's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckType {
    /// Counts, and compares with a threshold.
    CountThreshold,
    /// Looks for what must be there.
    MustFind,
    /// Looks for what must not be there.
    MustNotFind,
    /// Holds claims against facts.
    PatternMatch,
    /// Looks for two statements that cannot both hold.
    ContradictionCheck,
}

/// A rule's definition. The members stand in RFC 8785's order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// How it checks.
    pub check_type: CheckType,
    /// What it demands.
    pub description: &'static str,
    /// Its name, for good.
    pub id: RuleId,
    /// What it guards.
    pub invariant: Invariant,
    /// What it is set to, as canonical JSON.
    pub parameters: &'static str,
    /// Of the definition; a rule that is published keeps it.
    pub version: &'static str,
}

impl RuleId {
    /// All rules, in the order in which they are applied and listed.
    pub const ALL: [Self; 7] = [
        Self::Prec001,
        Self::Prec002,
        Self::Prec003,
        Self::Prec004,
        Self::Cont001,
        Self::Cont002,
        Self::Cont003,
    ];

    /// The rules that the seed publishes; they are the profile unless another is configured.
    pub const PUBLISHED: [Self; 7] = [
        Self::Prec001,
        Self::Prec002,
        Self::Prec003,
        Self::Prec004,
        Self::Cont001,
        Self::Cont002,
        Self::Cont003,
    ];

    /// The id on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Prec001 => "RULE-PREC-001",
            Self::Prec002 => "RULE-PREC-002",
            Self::Prec003 => "RULE-PREC-003",
            Self::Prec004 => "RULE-PREC-004",
            Self::Cont001 => "RULE-CONT-001",
            Self::Cont002 => "RULE-CONT-002",
            Self::Cont003 => "RULE-CONT-003",
        }
    }

    /// The rule's definition.
    #[must_use]
    pub const fn rule(self) -> &'static Rule {
        match self {
            Self::Prec001 => &PREC_001,
            Self::Prec002 => &PREC_002,
            Self::Prec003 => &PREC_003,
            Self::Prec004 => &PREC_004,
            Self::Cont001 => &CONT_001,
            Self::Cont002 => &CONT_002,
            Self::Cont003 => &CONT_003,
        }
    }
}

impl fmt::Display for RuleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Rule {
    /// The parameters, as JSON.
    #[must_use]
    pub fn parameters(&self) -> Box<RawValue> {
        serde_json::from_str(self.parameters).expect("a test reads the parameters of every rule")
    }

    /// The SHA-256 of the definition's canonical JSON.
    #[must_use]
    pub fn sha256(&self) -> Sha256Hex {
        Sha256Hex::of_json(self)
    }
}

impl Serialize for Rule {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Definition {
            check_type: CheckType,
            description: &'static str,
            id: RuleId,
            invariant: Invariant,
            parameters: Box<RawValue>,
            version: &'static str,
        }
        let Self { check_type, description, id, invariant, version, .. } = *self;
        let parameters = self.parameters();
        Definition { check_type, description, id, invariant, parameters, version }.serialize(serializer)
    }
}

/// The parameters of whatever goes by pairs of terms.
macro_rules! with_the_pairs {
    ($before:literal) => {
        concat!(
            "{",
            $before,
            r#""match_mode":"case_insensitive_substring_outside_the_opposite","#,
            r#""pairs":[["always","never"],["true","false"],["increase","decrease"],["positive","negative"],"#,
            r#"["valid","invalid"],["correct","incorrect"],["success","failure"],["above","below"],"#,
            r#"["present","absent"],["enabled","disabled"]]}"#
        )
    };
}

const PREC_001: Rule = Rule {
    check_type: CheckType::CountThreshold,
    description: "At most so many claims without support: every sentence is in a fact, or a fact in it",
    id: RuleId::Prec001,
    invariant: Invariant::NoUnsupportedClaims,
    parameters: r#"{"match_mode":"case_insensitive_substring","sentence_delimiters":[".","!","?"],"threshold_ref":"CONFIG:UNSUPPORTED_MAX"}"#,
    version: "1.0.0",
};

const PREC_002: Rule = Rule {
    check_type: CheckType::MustFind,
    description: "Every pattern of `must_find` appears",
    id: RuleId::Prec002,
    invariant: Invariant::NoUnsupportedClaims,
    parameters: r#"{"match_mode":"case_insensitive_substring"}"#,
    version: "1.0.0",
};

const PREC_003: Rule = Rule {
    check_type: CheckType::MustNotFind,
    description: "No pattern of `must_not_find` appears",
    id: RuleId::Prec003,
    invariant: Invariant::NoUnsupportedClaims,
    parameters: r#"{"match_mode":"case_insensitive_substring"}"#,
    version: "1.0.0",
};

const PREC_004: Rule = Rule {
    check_type: CheckType::PatternMatch,
    description: "Every claim is traced to a fact; no more are without one than RULE-PREC-001 allows",
    id: RuleId::Prec004,
    invariant: Invariant::NoUnsupportedClaims,
    parameters: r#"{"match_mode":"case_insensitive_substring","sentence_delimiters":[".","!","?"],"threshold_ref":"CONFIG:UNSUPPORTED_MAX","whitespace":"collapsed"}"#,
    version: "1.0.0",
};

const CONT_001: Rule = Rule {
    check_type: CheckType::ContradictionCheck,
    description: "Of a pair of opposites not both appear",
    id: RuleId::Cont001,
    invariant: Invariant::NoContradiction,
    parameters: with_the_pairs!(""),
    version: "1.0.0",
};

const CONT_002: Rule = Rule {
    check_type: CheckType::ContradictionCheck,
    description: "Of a pair of opposites not both appear, and the comparisons that are made can hold together",
    id: RuleId::Cont002,
    invariant: Invariant::NoContradiction,
    parameters: with_the_pairs!(r#""comparisons":["<",">","<=",">="],"#),
    version: "1.0.0",
};

const CONT_003: Rule = Rule {
    check_type: CheckType::ContradictionCheck,
    description: "What one sentence asserts no later one infirms",
    id: RuleId::Cont003,
    invariant: Invariant::NoContradiction,
    parameters: with_the_pairs!(""),
    version: "1.0.0",
};

/// A word that is no rule's id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not a rule; allowed: {}", RuleId::ALL.map(RuleId::as_str).join(", "))]
pub struct UnknownRule {
    /// The word, shortened to 40 characters.
    pub given: String,
}

impl FromStr for RuleId {
    type Err = UnknownRule;

    fn from_str(word: &str) -> Result<Self, UnknownRule> {
        let known = Self::ALL.into_iter().find(|rule| rule.as_str() == word);
        known.ok_or_else(|| UnknownRule { given: word.chars().take(40).collect() })
    }
}
