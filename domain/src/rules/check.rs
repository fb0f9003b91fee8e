//! What a candidate is checked against: facts, constraints, expectations, and which rules apply.

use super::registry::{CheckType, RuleId};
use crate::rules::sourced::FactSource;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use strum::VariantArray;

/// The threshold that stands in the configuration, by the name that the seed gives it.
pub const UNSUPPORTED_MAX: &str = "CONFIG:UNSUPPORTED_MAX";
/// The most facts of one check.
const FACTS_MAX: usize = 1_000_000;
/// The most patterns that must be found, and that must not.
const PATTERNS_MAX: usize = 10_000;
/// The most constraints, and contradiction ids.
const NAMED_MAX: usize = 1_000;
/// The highest threshold: the highest number that every reader of JSON takes for itself.
const UNSUPPORTED_MAX_MAX: u64 = (1 << 53) - 1;
/// The most pairs of opposites of a check's own.
const PAIRS_MAX: usize = 64;
/// The longest term of such a pair, in bytes.
const TERM_MAX_BYTES: usize = 128;

/// What a candidate is checked against, as a request has it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// What is known to be so. A claim is supported by one of them or not at all.
    pub facts: Vec<String>,
    /// Where the last of the facts come from, which sources gave.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub facts_from: Vec<FactSource>,
    /// Where the candidate comes from; part of what is hashed, and compared with nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// Comparisons that hold (`latency < timeout`), for RULE-CONT-002.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub constraints: Vec<String>,
    /// What is expected of the candidate.
    #[serde(default)]
    pub expected: Expected,
    /// The rules to apply, each once; the configured profile without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<Vec<RuleId>>,
}

/// What is expected of a candidate (seed: `expected`). The members stand in RFC 8785's order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// Pairs of opposites that must not both appear: `a-b`, `b-a`, or either term, in any case.
    #[serde(default)]
    pub contradiction_ids: Vec<String>,
    /// Pairs beside the published ones. They are checked whether an id names them or not.
    #[serde(default, deserialize_with = "pairs")]
    pub contradiction_pairs: Vec<(String, String)>,
    /// How many claims may be without support; the configured number without it.
    #[serde(default)]
    pub max_unsupported_claims: Option<Threshold>,
    /// What must appear.
    #[serde(default)]
    pub must_find: Vec<String>,
    /// What must not appear.
    #[serde(default)]
    pub must_not_find: Vec<String>,
}

/// How many claims may be without support: a number, or `"CONFIG:UNSUPPORTED_MAX"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Threshold {
    /// So many.
    Number(u64),
    /// As many as is configured.
    Config,
}

/// What is configured of the rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// How many claims may be without support, where a check does not say.
    pub unsupported_max: u64,
    /// The rules that apply where a check names none.
    pub profile: Vec<RuleId>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { unsupported_max: 0, profile: RuleId::PUBLISHED.into() }
    }
}

/// Why a check cannot be made; the message names what is wrong and what is allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidCheck {
    /// More of something than is taken.
    #[error("`{what}` has {given} entries; at most {allowed} are taken")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many there are.
        given: usize,
        /// How many there may be.
        allowed: usize,
    },
    /// A term that is none.
    #[error(
        "`expected.contradiction_pairs[{pair}]` has a term of {bytes} bytes; 1 to {TERM_MAX_BYTES} are taken, not all blank"
    )]
    Term {
        /// In which pair, from 0.
        pair: usize,
        /// How long the term is.
        bytes: usize,
    },
    /// A pair whose terms are the same.
    #[error("`expected.contradiction_pairs[{pair}]` names one term twice; a pair has two opposites")]
    SameTerm {
        /// Which pair, from 0.
        pair: usize,
    },
    /// No rule at all.
    #[error("`rules` is empty: nothing would be checked; name a rule, or leave `rules` out")]
    NoRules,
    /// A rule that is named twice.
    #[error("`rules` names {0} twice")]
    Twice(RuleId),
    /// Something that no rule looks at.
    #[error("`{what}` is given, and no rule that looks at it is applied; name one in `rules`: {}", names(by))]
    NotApplied {
        /// What is given.
        what: &'static str,
        /// Which rules look at it.
        by: Vec<RuleId>,
    },
}

/// The ids of `rules`, for a message.
fn names(rules: &[RuleId]) -> String {
    rules.iter().map(|rule| rule.into_str()).collect::<Vec<_>>().join(", ")
}

impl Check {
    /// Whether the check can be made: its bounds, its pairs, its rules, and whether they look at all that is expected.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn validate(&self, settings: &Settings) -> Result<(), InvalidCheck> {
        let Expected { contradiction_ids, contradiction_pairs, must_find, must_not_find, .. } =
            &self.expected;
        for (what, given, allowed) in [
            ("facts", self.facts.len(), FACTS_MAX),
            ("constraints", self.constraints.len(), NAMED_MAX),
            ("expected.must_find", must_find.len(), PATTERNS_MAX),
            ("expected.must_not_find", must_not_find.len(), PATTERNS_MAX),
            ("expected.contradiction_ids", contradiction_ids.len(), NAMED_MAX),
            ("expected.contradiction_pairs", contradiction_pairs.len(), PAIRS_MAX),
        ] {
            if given > allowed {
                return Err(InvalidCheck::TooMany { what, given, allowed });
            }
        }
        for (pair, (one, other)) in contradiction_pairs.iter().enumerate() {
            for term in [one, other] {
                if term.trim().is_empty() || term.len() > TERM_MAX_BYTES {
                    return Err(InvalidCheck::Term { pair, bytes: term.len() });
                }
            }
            if super::normal::normalize(one) == super::normal::normalize(other) {
                return Err(InvalidCheck::SameTerm { pair });
            }
        }
        self.validate_rules()?;
        self.validate_applied(self.rules.as_deref().unwrap_or(&settings.profile))
    }

    /// The check with the facts that sources gave, behind its own.
    #[must_use]
    pub fn with_facts_from(mut self, sources: Vec<FactSource>) -> Self {
        for mut source in sources {
            source.number_from(self.facts.len());
            self.facts.extend(source.facts().map(|fact| fact.text.clone()));
            self.facts_from.push(source);
        }
        self
    }

    /// How much there is to look at, about, in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        // an entry costs something however short it is
        const ENTRY: usize = 16;
        let Expected { contradiction_ids, contradiction_pairs, must_find, must_not_find, .. } =
            &self.expected;
        let lists = [&self.facts, &self.constraints, contradiction_ids, must_find, must_not_find];
        let texts = lists.into_iter().flatten().map(|text| text.len() + ENTRY).sum::<usize>();
        let pairs = contradiction_pairs.iter().map(|(one, other)| one.len() + other.len() + ENTRY);
        texts + pairs.sum::<usize>() + self.context.as_ref().map_or(0, String::len)
    }

    /// The check with what is configured filled in, so that it stays the same whatever is configured later.
    #[must_use]
    pub fn settled(mut self, settings: &Settings) -> Self {
        let unsupported_max = self.expected.unsupported_max(settings);
        self.expected.max_unsupported_claims = Some(Threshold::Number(unsupported_max));
        self.rules.get_or_insert_with(|| settings.profile.clone());
        self
    }

    /// Whether `rules` look at everything that the check speaks of beside its facts: what no rule looks at would be passed
    /// over.
    fn validate_applied(&self, rules: &[RuleId]) -> Result<(), InvalidCheck> {
        let Expected { contradiction_ids, contradiction_pairs, must_find, must_not_find, .. } =
            &self.expected;
        let of_type = |types: &[CheckType]| {
            let looks = |rule: &RuleId| types.contains(&rule.rule().check_type);
            RuleId::VARIANTS.iter().copied().filter(looks).collect::<Vec<_>>()
        };
        let contradictions = || of_type(&[CheckType::ContradictionCheck]);
        let threshold = self.expected.max_unsupported_claims.is_some();
        for (what, given, by) in [
            ("expected.must_find", !must_find.is_empty(), of_type(&[CheckType::MustFind])),
            ("expected.must_not_find", !must_not_find.is_empty(), of_type(&[CheckType::MustNotFind])),
            ("expected.contradiction_ids", !contradiction_ids.is_empty(), contradictions()),
            ("expected.contradiction_pairs", !contradiction_pairs.is_empty(), contradictions()),
            ("constraints", !self.constraints.is_empty(), vec![RuleId::Cont002]),
            (
                "expected.max_unsupported_claims",
                threshold,
                of_type(&[CheckType::CountThreshold, CheckType::PatternMatch]),
            ),
        ] {
            if given && !by.iter().any(|rule| rules.contains(rule)) {
                return Err(InvalidCheck::NotApplied { what, by });
            }
        }
        Ok(())
    }

    fn validate_rules(&self) -> Result<(), InvalidCheck> {
        let Some(rules) = &self.rules else { return Ok(()) };
        if rules.is_empty() {
            return Err(InvalidCheck::NoRules);
        }
        RuleId::first_repeated(rules).map_or(Ok(()), |rule| Err(InvalidCheck::Twice(rule)))
    }
}

impl Expected {
    /// How many claims may be without support.
    pub(super) const fn unsupported_max(&self, settings: &Settings) -> u64 {
        match self.max_unsupported_claims {
            Some(Threshold::Number(number)) => number,
            Some(Threshold::Config) | None => settings.unsupported_max,
        }
    }
}

/// Reads pairs. Taken as such, one of three terms would be told to be no JSON.
fn pairs<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(String, String)>, D::Error> {
    let pair = |terms: Vec<String>| {
        let pair = <[String; 2]>::try_from(terms).map(|[one, other]| (one, other));
        pair.map_err(|terms| D::Error::invalid_length(terms.len(), &"a pair of two terms"))
    };
    Vec::deserialize(deserializer)?.into_iter().map(pair).collect()
}

impl Serialize for Threshold {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Number(number) => serializer.serialize_u64(*number),
            Self::Config => serializer.serialize_str(UNSUPPORTED_MAX),
        }
    }
}

impl<'de> Deserialize<'de> for Threshold {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Threshold;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "a whole number from 0 to {UNSUPPORTED_MAX_MAX}, or \"{UNSUPPORTED_MAX}\"")
            }
            fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Threshold, E> {
                let too_high = || E::invalid_value(serde::de::Unexpected::Unsigned(number), &self);
                if number <= UNSUPPORTED_MAX_MAX { Ok(Threshold::Number(number)) } else { Err(too_high()) }
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Threshold, E> {
                let unknown = || E::invalid_value(serde::de::Unexpected::Str(text), &self);
                if text == UNSUPPORTED_MAX { Ok(Threshold::Config) } else { Err(unknown()) }
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}
