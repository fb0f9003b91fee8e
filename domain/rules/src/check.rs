//! The check of a candidate: facts, constraints, expectations, and the rules to apply.

use super::normalization::normalize;
use super::registry::{RuleCheckType, RuleId};
use crate::result::TextLanguage;
use crate::sourced::{FactSource, FactsFrom};
use crate::statements::LanguageTables;
use crate::wordlist::{CompiledWordlist, WordlistError};
use domain_base::digest::Sha256Hex;
use domain_base::text_form::is_blank;
use domain_ground::version_name::WordlistName;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::sync::Arc;
use strum::VariantArray;

/// The seed's name for the configured threshold.
pub const UNSUPPORTED_MAX: &str = "CONFIG:UNSUPPORTED_MAX";
/// The maximum number of facts in one check.
const FACTS_MAX: usize = 1_000_000;
/// The maximum number of required patterns, and of forbidden ones.
const PATTERNS_MAX: usize = 10_000;
/// The maximum number of constraints, and of contradiction ids.
const NAMED_MAX: usize = 1_000;
/// The highest threshold: the largest integer that every JSON reader represents exactly.
const UNSUPPORTED_MAX_MAX: u64 = (1 << 53) - 1;
/// The maximum number of own pairs of opposites in a check.
const PAIRS_MAX: usize = 64;
/// The maximum length of a term in such a pair, in bytes.
const TERM_MAX_BYTES: usize = 128;

/// The check of a candidate, as submitted in a request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CandidateCheck {
    /// The known facts. A claim must be supported by a single one of them.
    pub facts: Vec<String>,
    /// The origins of facts from sources, which come after the other facts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub facts_from: Vec<FactSource>,
    /// The origin of the candidate. It is part of the digest, but is not compared with anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// Comparisons that must hold (`latency < timeout`), for RULE-CONT-002.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub constraints: Vec<String>,
    #[serde(default)]
    pub expected: CandidateExpectations,
    /// The language of the text and of the facts, for RULE-PREC-013.
    #[serde(default, skip_serializing_if = "TextLanguage::is_default")]
    pub language: TextLanguage,
    /// The word list with which both are read, for RULE-PREC-013. It has the same language.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wordlist: Option<Arc<CompiledWordlist>>,
    /// Whether a claim may state what follows from two facts by one calculation, for RULE-PREC-013.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub derive: bool,
    /// The rules to apply, each once; by default those of the configured profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<Vec<RuleId>>,
    /// The SHA-256 of the request, by which a repeated request is recognized. It is not part of the digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_sha256: Option<Sha256Hex>,
}

/// The expectations of a candidate. Members are in RFC 8785 order.
// oracle-a-rules: `expected`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CandidateExpectations {
    /// Pairs of opposites that must not both appear: `a-b`, `b-a`, or either term, in any case.
    #[serde(default)]
    pub contradiction_ids: Vec<String>,
    /// Additional pairs of opposites. They are always checked, whether an id names them or not.
    #[serde(default, deserialize_with = "pairs")]
    pub contradiction_pairs: Vec<(String, String)>,
    /// The maximum number of unsupported claims; by default the configured number.
    #[serde(default)]
    pub max_unsupported_claims: Option<UnsupportedClaimLimit>,
    /// The required patterns.
    #[serde(default)]
    pub must_find: Vec<String>,
    /// The forbidden patterns.
    #[serde(default)]
    pub must_not_find: Vec<String>,
}

/// The maximum number of unsupported claims: a number, or `"CONFIG:UNSUPPORTED_MAX"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnsupportedClaimLimit {
    Number(u64),
    /// The configured number.
    Config,
}

/// The configuration of the rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleSettings {
    /// The maximum number of unsupported claims, if a check does not set it.
    pub unsupported_max: u64,
    /// The rules to apply if a check names none.
    pub profile: Vec<RuleId>,
}

impl Default for RuleSettings {
    fn default() -> Self {
        Self { unsupported_max: 0, profile: RuleId::PUBLISHED.into() }
    }
}

/// Why a check is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidCheckError {
    /// A list has too many entries.
    #[error("`{what}` has {given} entries; at most {allowed} are allowed")]
    TooMany {
        /// The name of the list.
        what: &'static str,
        /// The number of entries.
        given: usize,
        /// The maximum number of entries.
        allowed: usize,
    },
    /// A term is blank or too long.
    #[error(
        "`expected.contradiction_pairs[{pair}]` has a term of {bytes} bytes (1 to {TERM_MAX_BYTES} allowed, not blank)"
    )]
    Term {
        /// The index of the pair, from 0.
        pair: usize,
        /// The length of the term, in bytes.
        bytes: usize,
    },
    /// The two terms of a pair are the same.
    #[error("`expected.contradiction_pairs[{pair}]` names one term twice; use two opposites")]
    SameTerm {
        /// The index of the pair, from 0.
        pair: usize,
    },
    /// There are no rules.
    #[error("`rules` is empty; name a rule, or omit `rules`")]
    NoRules,
    /// A rule is named twice.
    #[error("`rules` names {0} twice")]
    Twice(RuleId),
    /// A member has no effect, because no rule uses it.
    #[error(
        "`{what}` is given, but no rule that uses it is applied; name one in `rules`: {}",
        join_rule_ids(by)
    )]
    NotApplied {
        /// The name of the member.
        what: &'static str,
        /// The rules that use it.
        by: Vec<RuleId>,
    },
}

/// The ids of `rules`, for a message.
fn join_rule_ids(rules: &[RuleId]) -> String {
    rules.iter().map(|rule| rule.into_str()).collect::<Vec<_>>().join(", ")
}

impl CandidateCheck {
    /// Validates the check: its limits, its pairs, its rules, and whether the rules use all of its members.
    ///
    /// # Errors
    /// The first fault found.
    pub fn validate(&self, settings: &RuleSettings) -> Result<(), InvalidCheckError> {
        let CandidateExpectations {
            contradiction_ids, contradiction_pairs, must_find, must_not_find, ..
        } = &self.expected;
        self.validate_facts()?;
        for (what, given, allowed) in [
            ("constraints", self.constraints.len(), NAMED_MAX),
            ("expected.must_find", must_find.len(), PATTERNS_MAX),
            ("expected.must_not_find", must_not_find.len(), PATTERNS_MAX),
            ("expected.contradiction_ids", contradiction_ids.len(), NAMED_MAX),
            ("expected.contradiction_pairs", contradiction_pairs.len(), PAIRS_MAX),
        ] {
            if given > allowed {
                return Err(InvalidCheckError::TooMany { what, given, allowed });
            }
        }
        for (pair, (one, other)) in contradiction_pairs.iter().enumerate() {
            for term in [one, other] {
                if is_blank(term) || term.len() > TERM_MAX_BYTES {
                    return Err(InvalidCheckError::Term { pair, bytes: term.len() });
                }
            }
            if normalize(one) == normalize(other) {
                return Err(InvalidCheckError::SameTerm { pair });
            }
        }
        self.validate_rules()?;
        self.validate_applied(self.rules.as_deref().unwrap_or(&settings.profile))
    }

    /// Validates the number of facts, with those of sources.
    ///
    /// # Errors
    /// There are too many.
    pub const fn validate_facts(&self) -> Result<(), InvalidCheckError> {
        let (given, allowed) = (self.facts.len(), FACTS_MAX);
        if given > allowed {
            return Err(InvalidCheckError::TooMany { what: "facts", given, allowed });
        }
        Ok(())
    }

    /// The check with the digest of its request. It is computed before the facts of `facts_from` and configured values are
    /// added, so a repeated request has the same one. `context` is not checked, and is no part of it.
    #[must_use]
    pub fn with_request_digest(
        self,
        facts_from: Option<&[FactsFrom]>,
        wordlist: Option<&WordlistName>,
    ) -> Self {
        /// The members by which a repeated request is recognized.
        #[derive(Serialize)]
        struct RequestInput<'a> {
            facts: &'a [String],
            facts_from: &'a [FactsFrom],
            constraints: &'a [String],
            expected: &'a CandidateExpectations,
            rules: Option<&'a [RuleId]>,
            language: TextLanguage,
            wordlist: Option<&'a WordlistName>,
            derive: bool,
        }
        // without `..`, so that no member can be forgotten
        let Self {
            facts,
            facts_from: _,
            context: _,
            constraints,
            expected,
            language,
            wordlist: _,
            derive,
            rules,
            request_sha256: _,
        } = &self;
        let digest = Sha256Hex::of_json(&RequestInput {
            facts,
            facts_from: facts_from.unwrap_or_default(),
            constraints,
            expected,
            rules: rules.as_deref(),
            language: *language,
            wordlist,
            derive: *derive,
        });
        Self { request_sha256: Some(digest), ..self }
    }

    /// Whether both checks have the same request.
    #[must_use]
    pub fn is_same_request(&self, other: &Self) -> bool {
        match (&self.request_sha256, &other.request_sha256) {
            (Some(own), Some(other)) => own == other,
            _ => self == other,
        }
    }

    /// The tables with which the text and the facts are read.
    pub(super) fn tables(&self) -> Result<&LanguageTables, &WordlistError> {
        self.wordlist.as_ref().map_or_else(|| Ok(self.language.tables()), |list| list.tables())
    }

    /// Appends the facts from sources to the check's own facts.
    #[must_use]
    pub fn with_facts_from(mut self, sources: Vec<FactSource>) -> Self {
        for mut source in sources {
            source.number_facts(self.facts.len());
            self.facts.extend(source.facts().map(|fact| fact.text.clone()));
            self.facts_from.push(source);
        }
        self
    }

    /// The approximate size of the check, in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        // a minimum cost for each entry, however short it is
        const ENTRY: usize = 16;
        let CandidateExpectations {
            contradiction_ids, contradiction_pairs, must_find, must_not_find, ..
        } = &self.expected;
        let lists = [&self.facts, &self.constraints, contradiction_ids, must_find, must_not_find];
        let texts = lists.into_iter().flatten().map(|text| text.len() + ENTRY).sum::<usize>();
        let pairs = contradiction_pairs.iter().map(|(one, other)| one.len() + other.len() + ENTRY);
        let wordlist = self.wordlist.as_ref().map_or(0, |list| list.document().text_bytes());
        texts + pairs.sum::<usize>() + wordlist + self.context.as_ref().map_or(0, String::len)
    }

    /// Fills in the configured values, so that later changes of the configuration have no effect on the check.
    #[must_use]
    pub fn with_configured_values(mut self, settings: &RuleSettings) -> Self {
        let unsupported_max = self.expected.unsupported_max(settings);
        self.expected.max_unsupported_claims = Some(UnsupportedClaimLimit::Number(unsupported_max));
        self.rules.get_or_insert_with(|| settings.profile.clone());
        self
    }

    /// `check` with the additional rules `required`. Without a check, they are applied without facts.
    #[must_use]
    pub fn with_required(
        check: Option<&Arc<Self>>,
        required: &[RuleId],
        settings: &RuleSettings,
    ) -> Option<Arc<Self>> {
        if required.is_empty() {
            return check.cloned();
        }
        let own = check
            .map_or_else(|| Self { rules: Some(Vec::new()), ..Self::default() }, |check| Self::clone(check));
        Some(Arc::new(own.with_added_rules(required, settings)))
    }

    /// Adds `rules` to those that the check applies.
    #[must_use]
    pub fn with_added_rules(mut self, rules: &[RuleId], settings: &RuleSettings) -> Self {
        let applied = self.rules.get_or_insert_with(|| settings.profile.clone());
        applied.extend(rules.iter().filter(|rule| !applied.contains(rule)).copied().collect::<Vec<_>>());
        self
    }

    /// Checks that `rules` use every member of the check besides its facts; an unused member would be ignored silently.
    fn validate_applied(&self, rules: &[RuleId]) -> Result<(), InvalidCheckError> {
        let CandidateExpectations {
            contradiction_ids, contradiction_pairs, must_find, must_not_find, ..
        } = &self.expected;
        let of_type = |types: &[RuleCheckType]| {
            let looks = |rule: &RuleId| types.contains(&rule.rule().check_type);
            RuleId::VARIANTS.iter().copied().filter(looks).collect::<Vec<_>>()
        };
        let contradictions = || of_type(&[RuleCheckType::ContradictionCheck]);
        let threshold = self.expected.max_unsupported_claims.is_some();
        for (what, given, by) in [
            ("expected.must_find", !must_find.is_empty(), of_type(&[RuleCheckType::MustFind])),
            ("expected.must_not_find", !must_not_find.is_empty(), of_type(&[RuleCheckType::MustNotFind])),
            ("expected.contradiction_ids", !contradiction_ids.is_empty(), contradictions()),
            ("expected.contradiction_pairs", !contradiction_pairs.is_empty(), contradictions()),
            ("constraints", !self.constraints.is_empty(), vec![RuleId::Cont002]),
            ("wordlist", self.wordlist.is_some(), vec![RuleId::Prec013]),
            ("language", !self.language.is_default(), vec![RuleId::Prec013]),
            ("derive", self.derive, vec![RuleId::Prec013]),
            (
                "expected.max_unsupported_claims",
                threshold,
                of_type(&[RuleCheckType::CountThreshold, RuleCheckType::PatternMatch]),
            ),
        ] {
            if given && !by.iter().any(|rule| rules.contains(rule)) {
                return Err(InvalidCheckError::NotApplied { what, by });
            }
        }
        Ok(())
    }

    fn validate_rules(&self) -> Result<(), InvalidCheckError> {
        let Some(rules) = &self.rules else { return Ok(()) };
        if rules.is_empty() {
            return Err(InvalidCheckError::NoRules);
        }
        RuleId::first_repeated(rules).map_or(Ok(()), |rule| Err(InvalidCheckError::Twice(rule)))
    }
}

impl CandidateExpectations {
    /// The maximum number of unsupported claims.
    pub(super) const fn unsupported_max(&self, settings: &RuleSettings) -> u64 {
        match self.max_unsupported_claims {
            Some(UnsupportedClaimLimit::Number(number)) => number,
            Some(UnsupportedClaimLimit::Config) | None => settings.unsupported_max,
        }
    }
}

/// Deserializes pairs. Deserializing to tuples would report a pair of three terms as invalid JSON.
fn pairs<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(String, String)>, D::Error> {
    let pair = |terms: Vec<String>| {
        let pair = <[String; 2]>::try_from(terms).map(|[one, other]| (one, other));
        pair.map_err(|terms| D::Error::invalid_length(terms.len(), &"a pair of two terms"))
    };
    Vec::deserialize(deserializer)?.into_iter().map(pair).collect()
}

impl Serialize for UnsupportedClaimLimit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Number(number) => serializer.serialize_u64(*number),
            Self::Config => serializer.serialize_str(UNSUPPORTED_MAX),
        }
    }
}

impl utoipa::PartialSchema for UnsupportedClaimLimit {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        use utoipa::openapi::schema::{ObjectBuilder, OneOfBuilder, Type};

        let number = ObjectBuilder::new().schema_type(Type::Integer);
        let number = number.minimum(Some(0)).maximum(Some(UNSUPPORTED_MAX_MAX));
        let config = ObjectBuilder::new().schema_type(Type::String).enum_values(Some([UNSUPPORTED_MAX]));
        OneOfBuilder::new()
            .item(number)
            .item(config)
            .description(Some("A number, or the configured number."))
            .into()
    }
}

impl utoipa::ToSchema for UnsupportedClaimLimit {}

impl<'de> Deserialize<'de> for UnsupportedClaimLimit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ClaimLimitVisitor;
        impl serde::de::Visitor<'_> for ClaimLimitVisitor {
            type Value = UnsupportedClaimLimit;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "a whole number from 0 to {UNSUPPORTED_MAX_MAX}, or \"{UNSUPPORTED_MAX}\"")
            }
            fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<UnsupportedClaimLimit, E> {
                let too_high = || E::invalid_value(serde::de::Unexpected::Unsigned(number), &self);
                if number <= UNSUPPORTED_MAX_MAX {
                    Ok(UnsupportedClaimLimit::Number(number))
                } else {
                    Err(too_high())
                }
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<UnsupportedClaimLimit, E> {
                let unknown = || E::invalid_value(serde::de::Unexpected::Str(text), &self);
                if text == UNSUPPORTED_MAX { Ok(UnsupportedClaimLimit::Config) } else { Err(unknown()) }
            }
        }
        deserializer.deserialize_any(ClaimLimitVisitor)
    }
}
