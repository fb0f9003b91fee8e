//! All rules by id. A published rule never changes; an improvement is a new rule with a new id (seed: "Extensibility").

mod definitions;

use domain_base::digest::Sha256Hex;
use domain_base::schema::one_of;
use domain_base::wording::excerpt;
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
#[strum(const_into_str, parse_err_fn = unknown_rule, parse_err_ty = UnknownRuleError)]
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
    /// Fact sourcing over whole sentences.
    #[strum(to_string = "RULE-PREC-005")]
    Prec005,
    /// Fact sourcing part by part.
    #[strum(to_string = "RULE-PREC-006")]
    Prec006,
    /// Fact sourcing with quantities by their value.
    #[strum(to_string = "RULE-PREC-007")]
    Prec007,
    /// Fact sourcing part by part, with quantities by their value.
    #[strum(to_string = "RULE-PREC-008")]
    Prec008,
    /// Fact sourcing with quantities and notes.
    #[strum(to_string = "RULE-PREC-009")]
    Prec009,
    /// Fact sourcing part by part, with quantities and notes.
    #[strum(to_string = "RULE-PREC-010")]
    Prec010,
    /// Patterns that must be found, with their line ends.
    #[strum(to_string = "RULE-PREC-011")]
    Prec011,
    /// Patterns that must not be found, with their line ends.
    #[strum(to_string = "RULE-PREC-012")]
    Prec012,
    /// Direct negation.
    #[strum(to_string = "RULE-CONT-001")]
    Cont001,
    /// Incompatible constraints.
    #[strum(to_string = "RULE-CONT-002")]
    Cont002,
    /// Assertion, then infirmation.
    #[strum(to_string = "RULE-CONT-003")]
    Cont003,
    /// Direct negation by whole words and their inflections.
    #[strum(to_string = "RULE-CONT-004")]
    Cont004,
}

/// The invariant that a rule enforces (seed: "Rule Index").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub enum RuleInvariant {
    /// Every claim has a source.
    #[serde(rename = "Q-INV-01")]
    NoUnsupportedClaims,
    /// There is no contradiction.
    #[serde(rename = "Q-INV-03")]
    NoContradiction,
}

/// How a rule checks, in the seed's terms.
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
            Self::Prec001 => &definitions::PREC_001,
            Self::Prec002 => &definitions::PREC_002,
            Self::Prec003 => &definitions::PREC_003,
            Self::Prec004 => &definitions::PREC_004,
            Self::Prec005 => &definitions::PREC_005,
            Self::Prec006 => &definitions::PREC_006,
            Self::Prec007 => &definitions::PREC_007,
            Self::Prec008 => &definitions::PREC_008,
            Self::Prec009 => &definitions::PREC_009,
            Self::Prec010 => &definitions::PREC_010,
            Self::Prec011 => &definitions::PREC_011,
            Self::Prec012 => &definitions::PREC_012,
            Self::Cont001 => &definitions::CONT_001,
            Self::Cont002 => &definitions::CONT_002,
            Self::Cont003 => &definitions::CONT_003,
            Self::Cont004 => &definitions::CONT_004,
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
        ids.map(Self).map_err(|_: UnknownRuleError| {
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

/// An unknown rule id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not a rule; allowed: {}", <RuleId as VariantNames>::VARIANTS.join(", "))]
pub struct UnknownRuleError {
    /// The word, shortened to 40 characters.
    pub given: String,
}

impl TryFrom<String> for RuleId {
    type Error = UnknownRuleError;

    fn try_from(word: String) -> Result<Self, UnknownRuleError> {
        word.parse()
    }
}

fn unknown_rule(word: &str) -> UnknownRuleError {
    UnknownRuleError { given: excerpt(word) }
}
