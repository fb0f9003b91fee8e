//! The flags of a judgment: each cause with its place and its weight (`docs/mapping.md`).

use crate::label::{ProductTier, VerdictDimension};
use domain_base::wording::ParseTextError;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;
use strum::IntoStaticStr;
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// The path of a required field in the payload. Dimensions are in the seed's order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FieldPath {
    Summary,
    Breakdown,
    /// `breakdown.<Dimension>`
    Dimension(VerdictDimension),
    /// `breakdown.<Dimension>.verdict`
    DimensionVerdict(VerdictDimension),
    /// `breakdown.<Dimension>.analysis`
    DimensionAnalysis(VerdictDimension),
    Strategy,
    /// `strategy.next_step`
    NextStep,
    /// `strategy.alternative`
    Alternative,
    /// `strategy.tests`
    Tests,
}

impl FieldPath {
    /// Every required field of any tier.
    fn all() -> impl Iterator<Item = Self> {
        let fixed =
            [Self::Summary, Self::Breakdown, Self::Strategy, Self::NextStep, Self::Alternative, Self::Tests];
        let below = VerdictDimension::ALL
            .into_iter()
            .flat_map(|d| [Self::Dimension(d), Self::DimensionVerdict(d), Self::DimensionAnalysis(d)]);
        fixed.into_iter().chain(below)
    }

    /// The sort key: the group of the field, its dimension, and the field within the dimension or the group.
    const fn place(self) -> (u8, Option<VerdictDimension>, u8) {
        match self {
            Self::Summary => (0, None, 0),
            Self::Breakdown => (1, None, 0),
            Self::Dimension(dimension) => (2, Some(dimension), 0),
            Self::DimensionVerdict(dimension) => (2, Some(dimension), 1),
            Self::DimensionAnalysis(dimension) => (2, Some(dimension), 2),
            Self::Strategy => (3, None, 0),
            Self::NextStep => (3, None, 1),
            Self::Alternative => (3, None, 2),
            Self::Tests => (3, None, 3),
        }
    }
}

impl Ord for FieldPath {
    fn cmp(&self, other: &Self) -> Ordering {
        self.place().cmp(&other.place())
    }
}

impl PartialOrd for FieldPath {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Summary => f.write_str("summary"),
            Self::Breakdown => f.write_str("breakdown"),
            Self::Dimension(dimension) => write!(f, "breakdown.{dimension}"),
            Self::DimensionVerdict(dimension) => write!(f, "breakdown.{dimension}.verdict"),
            Self::DimensionAnalysis(dimension) => write!(f, "breakdown.{dimension}.analysis"),
            Self::Strategy => f.write_str("strategy"),
            Self::NextStep => f.write_str("strategy.next_step"),
            Self::Alternative => f.write_str("strategy.alternative"),
            Self::Tests => f.write_str("strategy.tests"),
        }
    }
}

/// A cause found in a payload. As `&str`, its name without the place. Decisions list flags in the order of the
/// variants.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Flag {
    /// The top-level verdict differs from the strict majority of the dimensions: V_r 2.0.
    VerdictConflict,
    /// A dimension has a valid verdict and an empty or absent analysis: V_r 0.5.
    EmptyAnalysis(VerdictDimension),
    /// The summary is absent, empty or shorter than 10 characters: V_r 1.0.
    ShortSummary,
    /// NULL over dimensions that are all GREEN or AMBER: V_r 1.5.
    ContradictoryNull,
    /// Strategy tier without a strategy: V_r 2.0.
    StrategyMissing,
    /// Strategy tier with fewer than two non-empty tests: V_r 1.0.
    FewTests,
    /// The text is not one strict JSON document: E_D 2.0.
    MalformedJson,
    /// The top-level verdict is missing or not a string: E_D 1.0.
    VerdictMissing,
    /// The top-level verdict is not one of the four labels: E_D 1.0.
    VerdictInvalid,
    /// Another required field is missing or of the wrong type: E_D 0.5.
    FieldMissing(FieldPath),
    /// A dimension's verdict is a string but not one of the four labels: E_D 0.5.
    DimensionVerdictInvalid(VerdictDimension),
    /// A member that the tier does not have, by its path; its weight is 0.
    UnexpectedField(String),
    /// C is below zero.
    DegenerateManifold,
}

impl Flag {
    /// Every flag at every place, except for unexpected fields, whose names come from the model.
    pub fn all() -> impl Iterator<Item = Self> {
        let plain = [
            Self::VerdictConflict,
            Self::ShortSummary,
            Self::ContradictoryNull,
            Self::StrategyMissing,
            Self::FewTests,
            Self::MalformedJson,
            Self::VerdictMissing,
            Self::VerdictInvalid,
            Self::DegenerateManifold,
        ];
        let by_dimension = VerdictDimension::ALL
            .into_iter()
            .flat_map(|d| [Self::EmptyAnalysis(d), Self::DimensionVerdictInvalid(d)]);
        plain.into_iter().chain(by_dimension).chain(FieldPath::all().map(Self::FieldMissing))
    }

    /// The smallest tier in which the mapping can raise this flag; `None` for flags without weight.
    #[must_use]
    pub const fn first_tier(&self) -> Option<ProductTier> {
        match self {
            Self::ShortSummary | Self::MalformedJson | Self::VerdictMissing | Self::VerdictInvalid => {
                Some(ProductTier::Quick)
            }
            Self::VerdictConflict
            | Self::EmptyAnalysis(_)
            | Self::ContradictoryNull
            | Self::DimensionVerdictInvalid(_) => Some(ProductTier::Full),
            Self::StrategyMissing | Self::FewTests => Some(ProductTier::Strategy),
            Self::FieldMissing(path) => Some(match path {
                FieldPath::Summary => ProductTier::Quick,
                FieldPath::Breakdown
                | FieldPath::Dimension(_)
                | FieldPath::DimensionVerdict(_)
                | FieldPath::DimensionAnalysis(_) => ProductTier::Full,
                FieldPath::Strategy | FieldPath::NextStep | FieldPath::Alternative | FieldPath::Tests => {
                    ProductTier::Strategy
                }
            }),
            Self::UnexpectedField(_) | Self::DegenerateManifold => None,
        }
    }

    /// The contribution of this flag to V_r (dimensionless).
    #[must_use]
    pub const fn v_r(&self) -> f64 {
        match self {
            Self::VerdictConflict | Self::StrategyMissing => 2.0,
            Self::ContradictoryNull => 1.5,
            Self::ShortSummary | Self::FewTests => 1.0,
            Self::EmptyAnalysis(_) => 0.5,
            _ => 0.0,
        }
    }

    /// The E_D of this flag (dimensionless); the largest one of a judgment's flags applies.
    #[must_use]
    pub const fn e_d(&self) -> f64 {
        match self {
            Self::MalformedJson => 2.0,
            Self::VerdictMissing | Self::VerdictInvalid => 1.0,
            Self::FieldMissing(_) | Self::DimensionVerdictInvalid(_) => 0.5,
            _ => 0.0,
        }
    }

    /// Whether the flag names a member that was not judged.
    #[must_use]
    pub const fn is_unexpected(&self) -> bool {
        matches!(self, Self::UnexpectedField(_))
    }
}

impl fmt::Display for Flag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.into_str();
        match self {
            Self::EmptyAnalysis(dimension) | Self::DimensionVerdictInvalid(dimension) => {
                write!(f, "{name}:{dimension}")
            }
            Self::FieldMissing(path) => write!(f, "{name}:{path}"),
            Self::UnexpectedField(path) => write!(f, "{name}:{path}"),
            _ => f.write_str(name),
        }
    }
}

impl FromStr for Flag {
    type Err = ParseTextError;

    fn from_str(word: &str) -> Result<Self, ParseTextError> {
        if let Some(("unexpected_field", path)) = word.split_once(':') {
            return Ok(Self::UnexpectedField(path.to_owned()));
        }
        Self::all()
            .filter(|flag| word.starts_with(flag.into_str()))
            .find(|flag| flag.to_string() == word)
            .ok_or_else(|| ParseTextError::new("a flag", word, "the flags of the crosscheck"))
    }
}

impl Serialize for Flag {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Flag {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl PartialSchema for Flag {
    fn schema() -> RefOr<Schema> {
        let mut names: Vec<&str> = Self::all().map(|flag| flag.into_str()).collect();
        names.push(Self::UnexpectedField(String::new()).into_str());
        names.sort_unstable();
        names.dedup();
        let text = ObjectBuilder::new().schema_type(Type::String);
        let text = text.pattern(Some(format!("^({})(:.*)?$", names.join("|"))));
        let description =
            "A cause found in a verdict: its name and, after a colon, the dimension or the field.";
        text.description(Some(description)).examples(["field_missing:strategy.tests"]).into()
    }
}

impl ToSchema for Flag {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flag_text_parses_back_to_every_flag() {
        let mut flags = vec![
            Flag::VerdictConflict,
            Flag::ShortSummary,
            Flag::ContradictoryNull,
            Flag::StrategyMissing,
            Flag::FewTests,
            Flag::MalformedJson,
            Flag::VerdictMissing,
            Flag::VerdictInvalid,
            Flag::FieldMissing(FieldPath::Summary),
            Flag::FieldMissing(FieldPath::Tests),
            Flag::UnexpectedField("breakdown.Mood: swings".into()),
            Flag::DegenerateManifold,
        ];
        for dimension in VerdictDimension::ALL {
            flags.push(Flag::EmptyAnalysis(dimension));
            flags.push(Flag::DimensionVerdictInvalid(dimension));
            flags.push(Flag::FieldMissing(FieldPath::DimensionAnalysis(dimension)));
        }
        assert!(
            flags
                .iter()
                .all(|flag| matches!(flag, Flag::UnexpectedField(_)) || Flag::all().any(|one| one == *flag))
        );
        for flag in flags.into_iter().chain(Flag::all()) {
            assert_eq!(flag.to_string().parse::<Flag>().as_ref(), Ok(&flag));
        }
        assert!("empty_analysis:Mood".parse::<Flag>().is_err());
        assert!("approved".parse::<Flag>().is_err());
    }
}
