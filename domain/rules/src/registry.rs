//! All rules by id. A published rule never changes; an improvement is a new rule with a new id (seed: "Extensibility").

use domain_base::digest::Sha256Hex;
use domain_base::document::one_of;
use domain_base::wording::ParseTextError;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;
use strum::{Display, EnumString, IntoStaticStr, VariantArray, VariantNames};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// The id of a rule. Rules are applied and listed in this order.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    IntoStaticStr,
    Display,
    EnumString,
    VariantArray,
    VariantNames,
)]
#[serde(try_from = "String", into = "&'static str")]
#[strum(const_into_str, parse_err_fn = unknown_rule, parse_err_ty = ParseTextError)]
pub enum RuleId {
    /// Zero unsupported claims.
    #[strum(to_string = "RULE-PREC-001")]
    Prec001,
    /// Patterns that must be found.
    #[strum(to_string = "RULE-PREC-002")]
    Prec002,
    /// Patterns that must not be found.
    #[strum(to_string = "RULE-PREC-003")]
    Prec003,
    /// Fact sourcing, claim by claim.
    #[strum(to_string = "RULE-PREC-004")]
    Prec004,
    /// Supported claims.
    #[strum(to_string = "RULE-PREC-013")]
    Prec013,
    /// Direct negation.
    #[strum(to_string = "RULE-CONT-001")]
    Cont001,
    /// Incompatible constraints.
    #[strum(to_string = "RULE-CONT-002")]
    Cont002,
    /// Assertion, then infirmation.
    #[strum(to_string = "RULE-CONT-003")]
    Cont003,
}

/// The invariant that a rule enforces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub enum RuleInvariant {
    /// Every claim has a source.
    #[serde(rename = "Q-INV-01")]
    NoUnsupportedClaims,
    /// There is no contradiction.
    #[serde(rename = "Q-INV-03")]
    NoContradiction,
}

/// How a rule checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RuleCheckType {
    /// Counts, and compares the count with a threshold.
    CountThreshold,
    /// Searches for required text.
    MustFind,
    /// Searches for forbidden text.
    MustNotFind,
    /// Compares claims with facts.
    PatternMatch,
    /// Searches for two statements that cannot both be true.
    ContradictionCheck,
}

/// The definition of a rule. Members are in RFC 8785 order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuleDefinition {
    /// How it checks.
    pub check_type: RuleCheckType,
    /// The requirement that it checks.
    pub description: &'static str,
    /// The id, which never changes.
    pub id: RuleId,
    /// The invariant that it enforces.
    pub invariant: RuleInvariant,
    /// The parameters, as canonical JSON.
    pub parameters: &'static str,
    /// The version of the definition; it never changes after publication.
    pub version: &'static str,
}

impl RuleId {
    /// The rules that the seed publishes. They are the default profile.
    pub const PUBLISHED: [Self; 7] = [
        Self::Prec001,
        Self::Prec002,
        Self::Prec003,
        Self::Prec004,
        Self::Cont001,
        Self::Cont002,
        Self::Cont003,
    ];

    /// The first of `rules` that occurs again later in the list.
    #[must_use]
    pub fn first_repeated(rules: &[Self]) -> Option<Self> {
        let mut rest = rules.iter();
        while let Some(rule) = rest.next() {
            if rest.as_slice().contains(rule) {
                return Some(*rule);
            }
        }
        None
    }

    /// The rule's definition.
    #[must_use]
    pub const fn rule(self) -> &'static RuleDefinition {
        match self {
            Self::Prec001 => &PREC_001,
            Self::Prec002 => &PREC_002,
            Self::Prec003 => &PREC_003,
            Self::Prec004 => &PREC_004,
            Self::Prec013 => &PREC_013,
            Self::Cont001 => &CONT_001,
            Self::Cont002 => &CONT_002,
            Self::Cont003 => &CONT_003,
        }
    }
}

impl RuleDefinition {
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

/// The rules of a configuration, in the order in which they apply.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct RuleIds(pub Vec<RuleId>);

impl TryFrom<Vec<String>> for RuleIds {
    type Error = String;

    fn try_from(words: Vec<String>) -> Result<Self, String> {
        let ids: Result<Vec<RuleId>, _> = words.iter().map(|word| word.parse()).collect();
        ids.map(Self).map_err(|_: ParseTextError| {
            format!("an entry is not a rule; allowed: {}", <RuleId as VariantNames>::VARIANTS.join(", "))
        })
    }
}

impl From<RuleIds> for Vec<String> {
    fn from(RuleIds(ids): RuleIds) -> Self {
        ids.iter().map(ToString::to_string).collect()
    }
}

/// The definition of a rule, as it is published.
#[derive(Serialize, ToSchema)]
struct CanonicalRuleDefinition {
    /// How it checks.
    check_type: RuleCheckType,
    /// The requirement that it checks.
    description: &'static str,
    /// The id, which never changes.
    id: RuleId,
    /// The invariant that it enforces.
    invariant: RuleInvariant,
    /// The parameters.
    #[schema(value_type = Value)]
    parameters: Box<RawValue>,
    /// The version of the definition; it never changes after publication.
    version: &'static str,
}

impl PartialSchema for RuleDefinition {
    fn schema() -> RefOr<Schema> {
        CanonicalRuleDefinition::schema()
    }
}

impl ToSchema for RuleDefinition {
    fn name() -> Cow<'static, str> {
        "RuleDefinition".into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        CanonicalRuleDefinition::schemas(schemas);
    }
}

impl PartialSchema for RuleId {
    fn schema() -> RefOr<Schema> {
        one_of("The id of a rule.", <Self as VariantNames>::VARIANTS.iter().copied())
    }
}

impl ToSchema for RuleId {}

impl Serialize for RuleDefinition {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { check_type, description, id, invariant, version, .. } = *self;
        let parameters = self.parameters();
        CanonicalRuleDefinition { check_type, description, id, invariant, parameters, version }
            .serialize(serializer)
    }
}

impl TryFrom<String> for RuleId {
    type Error = ParseTextError;

    fn try_from(word: String) -> Result<Self, ParseTextError> {
        word.parse()
    }
}

fn unknown_rule(word: &str) -> ParseTextError {
    ParseTextError::new("a rule", word, <RuleId as VariantNames>::VARIANTS.join(", "))
}

/// The parameters of rules that use pairs of terms.
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

const PREC_001: RuleDefinition = RuleDefinition {
    check_type: RuleCheckType::CountThreshold,
    description: "At most so many claims without support: every sentence is in a fact, or a fact in it",
    id: RuleId::Prec001,
    invariant: RuleInvariant::NoUnsupportedClaims,
    parameters: r#"{"match_mode":"case_insensitive_substring","sentence_delimiters":[".","!","?"],"threshold_ref":"CONFIG:UNSUPPORTED_MAX"}"#,
    version: "1.0.0",
};

const PREC_002: RuleDefinition = RuleDefinition {
    check_type: RuleCheckType::MustFind,
    description: "Every pattern of `must_find` appears",
    id: RuleId::Prec002,
    invariant: RuleInvariant::NoUnsupportedClaims,
    parameters: r#"{"match_mode":"case_insensitive_substring"}"#,
    version: "1.0.0",
};

const PREC_003: RuleDefinition = RuleDefinition {
    check_type: RuleCheckType::MustNotFind,
    description: "No pattern of `must_not_find` appears",
    id: RuleId::Prec003,
    invariant: RuleInvariant::NoUnsupportedClaims,
    parameters: r#"{"match_mode":"case_insensitive_substring"}"#,
    version: "1.0.0",
};

const PREC_004: RuleDefinition = RuleDefinition {
    check_type: RuleCheckType::PatternMatch,
    description: "Every claim is traced to a fact; no more are without one than RULE-PREC-001 allows",
    id: RuleId::Prec004,
    invariant: RuleInvariant::NoUnsupportedClaims,
    parameters: r#"{"match_mode":"case_insensitive_substring","sentence_delimiters":[".","!","?"],"threshold_ref":"CONFIG:UNSUPPORTED_MAX","whitespace":"collapsed"}"#,
    version: "1.0.0",
};

const CONT_001: RuleDefinition = RuleDefinition {
    check_type: RuleCheckType::ContradictionCheck,
    description: "Of a pair of opposites not both appear",
    id: RuleId::Cont001,
    invariant: RuleInvariant::NoContradiction,
    parameters: with_the_pairs!(""),
    version: "1.0.0",
};

const CONT_002: RuleDefinition = RuleDefinition {
    check_type: RuleCheckType::ContradictionCheck,
    description: "Of a pair of opposites not both appear, and the comparisons that are made can hold together",
    id: RuleId::Cont002,
    invariant: RuleInvariant::NoContradiction,
    parameters: with_the_pairs!(r#""comparisons":["<",">","<=",">="],"#),
    version: "1.0.0",
};

const CONT_003: RuleDefinition = RuleDefinition {
    check_type: RuleCheckType::ContradictionCheck,
    description: "What one sentence asserts no later one infirms",
    id: RuleId::Cont003,
    invariant: RuleInvariant::NoContradiction,
    parameters: with_the_pairs!(""),
    version: "1.0.0",
};

const PREC_013: RuleDefinition = RuleDefinition {
    check_type: RuleCheckType::PatternMatch,
    description: "Every part of every sentence is stated by one part of one fact",
    id: RuleId::Prec013,
    invariant: RuleInvariant::NoUnsupportedClaims,
    parameters: r#"{"languages":["de","en"],"tables":"1","unicode":"17.0.0"}"#,
    version: "1.0.0",
};
