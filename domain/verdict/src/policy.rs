//! The policy beside the gate: which approved verdicts are held for a person, or refused.
//!
//! A policy sees only verdicts that the crosscheck approved, so it can deliver fewer verdicts, and never more.
//!
//! Verdicts that the policy holds stay until an operator decides.

use crate::crosscheck::CrosscheckDecision;
use crate::flag::Flag;
use crate::generation::VerdictGeneration;
use crate::label::ProductTier;
use crate::prompt::VerdictPrompt;
use domain_base::digest::Sha256Hex;
use domain_base::gate_path::GatePath;
use domain_base::row::{IndexEntry, KeyedRow, Row, RowData, Table, check_row, not_indexed};
use domain_base::session_id::{ApplicationName, SessionId};
use domain_base::wording::ParseTextError;
use domain_rules::RuleId;
use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use strum::{IntoStaticStr, VariantArray};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// The name of a minimum coherence among the causes.
const COHERENCE_MIN: &str = "coherence_min";

/// Selects flags of approved verdicts: the name of a flag for all its places, or a flag with its place.
///
/// An unexpected member has no place here: the flags name only some of them, so a policy on one could miss it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlagSelector(String);

impl FlagSelector {
    /// The names of the flags that an approved verdict can have.
    pub const NAMES: [&'static str; 6] = [
        "verdict_conflict",
        "empty_analysis",
        "short_summary",
        "contradictory_null",
        "few_tests",
        "unexpected_field",
    ];

    /// The member of a verdict by which [`FlagSelector::of_test_hold`] selects it. No verdict is judged by it, so by
    /// default it is removed before delivery.
    pub const TEST_HOLD_MEMBER: &'static str = "held_by_test_mode";

    /// Selects the verdicts that the model of the test mode makes to be held.
    #[must_use]
    pub fn of_test_hold() -> Self {
        Self(Flag::UnexpectedField(Self::TEST_HOLD_MEMBER.to_owned()).to_string())
    }

    fn selects(&self, flag: &Flag) -> bool {
        self.0 == flag.into_str() || self.0 == flag.to_string()
    }
}

impl FromStr for FlagSelector {
    type Err = ParseTextError;

    fn from_str(word: &str) -> Result<Self, ParseTextError> {
        let is_known =
            |flag: Flag| !matches!(flag, Flag::UnexpectedField(_)) && Self::NAMES.contains(&flag.into_str());
        if Self::NAMES.contains(&word) || word.parse().is_ok_and(is_known) {
            return Ok(Self(word.to_owned()));
        }
        Err(ParseTextError::new("a flag", word, "the flags of approved verdicts"))
    }
}

/// The action of a policy on an approved verdict that it does not deliver.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    Serialize,
    Deserialize,
    VariantArray,
    IntoStaticStr,
    utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum PolicyAction {
    /// The verdict is stored encrypted until an operator releases it, retries its order or fails its order.
    Hold,
    /// The verdict is neither stored nor delivered.
    Refuse,
}

/// The effect of a policy that holds a verdict, by the place of the verdict in its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HoldEffect {
    /// It is held.
    Hold,
    /// It is delivered: it was delivered before, or an operator releases it.
    Deliver,
    /// It is refused: it would replace the first verdict of its session, and a held order would keep readers from the regeneration of
    /// that one.
    Refuse,
}

/// Why a policy did not deliver a verdict.
#[derive(Debug, Clone, PartialEq)]
pub enum PolicyCause {
    /// The verdict has a flag that the policy lists.
    Flag(Flag),
    /// Its coherence is below this minimum.
    CoherenceMin(f64),
}

impl PolicyCause {
    /// Whether it applies to a verdict with these flags and this coherence.
    pub(crate) fn applies(&self, flags: &[Flag], coherence_score: f64) -> bool {
        match self {
            Self::Flag(flag) => flags.contains(flag),
            Self::CoherenceMin(minimum) => coherence_score < *minimum,
        }
    }
}

impl fmt::Display for PolicyCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => flag.fmt(f),
            Self::CoherenceMin(minimum) => write!(f, "{COHERENCE_MIN}:{minimum}"),
        }
    }
}

impl FromStr for PolicyCause {
    type Err = ParseTextError;

    fn from_str(word: &str) -> Result<Self, ParseTextError> {
        let minimum = word.strip_prefix(COHERENCE_MIN).and_then(|rest| rest.strip_prefix(':')?.parse().ok());
        minimum.map_or_else(|| word.parse().map(Self::Flag), |minimum| Ok(Self::CoherenceMin(minimum)))
    }
}

impl Serialize for PolicyCause {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PolicyCause {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl PartialSchema for PolicyCause {
    fn schema() -> RefOr<Schema> {
        let text = ObjectBuilder::new().schema_type(Type::String);
        let description = "Why a policy held or refused a verdict: a flag of the verdict, or `coherence_min` with the \
                           minimum after a colon.";
        text.description(Some(description)).examples(["verdict_conflict"]).into()
    }
}

impl ToSchema for PolicyCause {}

/// The causes in one line.
#[must_use]
pub fn join_causes(causes: &[PolicyCause]) -> String {
    causes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// The decision of a policy not to deliver a verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct AppliedPolicy {
    /// `hold` or `refuse`.
    pub action: PolicyAction,
    /// The causes.
    pub causes: Vec<PolicyCause>,
}

/// The policy for the verdicts of one tier in one application.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DeliveryPolicy {
    /// The flags that hold a verdict.
    pub hold: Vec<FlagSelector>,
    /// The flags that refuse a verdict.
    pub refuse: Vec<FlagSelector>,
    /// The minimum coherence; a verdict below it is refused.
    pub coherence_min: Option<f64>,
    /// The rules that a verdict must pass, beside those of its request.
    pub rules: Vec<RuleId>,
}

impl DeliveryPolicy {
    /// Decides on a verdict that was approved by `decision`. `None` delivers it. Refusing takes precedence over holding.
    #[must_use]
    pub fn decide(&self, decision: &CrosscheckDecision) -> Option<AppliedPolicy> {
        let matching = |selectors: &[FlagSelector]| -> Vec<_> {
            let is_selected = |flag: &&Flag| selectors.iter().any(|selector| selector.selects(flag));
            decision.flags.iter().filter(is_selected).cloned().map(PolicyCause::Flag).collect()
        };
        let minimum = self.coherence_min.map(PolicyCause::CoherenceMin);
        let too_low = minimum.filter(|cause| cause.applies(&decision.flags, decision.coherence_score));
        let refused: Vec<_> = matching(&self.refuse).into_iter().chain(too_low).collect();
        let (action, causes) = match refused {
            causes if !causes.is_empty() => (PolicyAction::Refuse, causes),
            _ => (PolicyAction::Hold, matching(&self.hold)),
        };
        (!causes.is_empty()).then_some(AppliedPolicy { action, causes })
    }

    /// The same for a verdict of a session on which a hold has this effect.
    #[must_use]
    pub fn decide_in_session(
        &self,
        decision: &CrosscheckDecision,
        effect: HoldEffect,
    ) -> Option<AppliedPolicy> {
        let policy = self.decide(decision)?;
        match (policy.action, effect) {
            (PolicyAction::Hold, HoldEffect::Deliver) => None,
            (PolicyAction::Hold, HoldEffect::Refuse) => {
                Some(AppliedPolicy { action: PolicyAction::Refuse, ..policy })
            }
            (PolicyAction::Hold | PolicyAction::Refuse, _) => Some(policy),
        }
    }
}

/// A value for each tier and application.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PerTier<T> {
    /// The values for applications without values of their own.
    pub common: BTreeMap<ProductTier, T>,
    pub applications: BTreeMap<(ApplicationName, ProductTier), T>,
}

impl<T> PerTier<T> {
    /// The value for verdicts of `tier` in `application`.
    #[must_use]
    pub fn find(&self, application: ApplicationName, tier: ProductTier) -> Option<&T> {
        self.applications.get(&(application, tier)).or_else(|| self.common.get(&tier))
    }
}

/// The policies of all tiers and applications.
pub type DeliveryPolicies = PerTier<DeliveryPolicy>;

impl DeliveryPolicies {
    /// The same, and the verdicts that the model of the test mode makes to be held are held.
    #[must_use]
    pub fn with_test_hold(mut self) -> Self {
        for policy in self.common.values_mut().chain(self.applications.values_mut()) {
            policy.hold.push(FlagSelector::of_test_hold());
        }
        self
    }
}

/// An approved verdict that is held. Its text is encrypted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HeldVerdict {
    pub session_id: SessionId,
    pub held_at: Timestamp,
    /// The path on which it arrived.
    pub path: GatePath,
    /// Why it is held.
    pub causes: Vec<PolicyCause>,
    /// The SHA-256 of its text.
    pub verdict_sha256: Sha256Hex,
    /// How the model generated it; `None` for a submitted verdict.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub generation: Option<VerdictGeneration>,
    /// The prompt of a submitted verdict, if the caller named it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub prompt: Option<VerdictPrompt>,
    /// The numbers of the entries of earlier commits from which it follows: the attempt that generated it. With several opinions, also the
    /// judgment of the answer, if that of the commit is of another one.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub evidence: Vec<u64>,
    /// Its delivery document, encrypted: the nonce and the ciphertext, in Base64.
    pub sealed: String,
}

impl Row for HeldVerdict {
    type Key = SessionId;
    const TABLE: &'static Table = &Table {
        name: "held",
        bundle: None,
        data: RowData::of_named_session("held_verdict"),
        is_new_work: false,
        names_files: false,
        finds_entries: false,
        upgrades: &[],
        check: check_row::<Self>,
        indexes: &[],
        index: not_indexed,
    };

    fn index(&self) -> Vec<IndexEntry> {
        Vec::new()
    }
}

impl KeyedRow for HeldVerdict {
    fn key(&self) -> SessionId {
        self.session_id.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crosscheck::CrosscheckReason;
    use crate::label::{VerdictDimension, VerdictLabel};
    use crate::tmm::OMEGA;

    fn decision(flags: &[Flag], coherence_score: f64) -> CrosscheckDecision {
        CrosscheckDecision {
            approved: true,
            coherence_score,
            threshold: OMEGA,
            verdict_label: Some(VerdictLabel::Green),
            flags: flags.to_vec(),
            crosscheck_reason: CrosscheckReason::Pass,
        }
    }

    fn selectors(words: &[&str]) -> Vec<FlagSelector> {
        words.iter().map(|word| word.parse().expect("a flag")).collect()
    }

    fn policy(hold: &[&str], refuse: &[&str], coherence_min: Option<f64>) -> DeliveryPolicy {
        DeliveryPolicy { hold: selectors(hold), refuse: selectors(refuse), coherence_min, rules: Vec::new() }
    }

    fn applied(policy: &DeliveryPolicy, flags: &[Flag], coherence: f64) -> Option<(PolicyAction, String)> {
        let applied = policy.decide(&decision(flags, coherence))?;
        Some((applied.action, join_causes(&applied.causes)))
    }

    #[test]
    fn policy_applies_to_listed_flags_only() {
        let stability = Flag::EmptyAnalysis(VerdictDimension::Stability);
        let curvature = Flag::EmptyAnalysis(VerdictDimension::Curvature);
        let hold = policy(&["verdict_conflict", "empty_analysis:Stability"], &[], None);
        assert_eq!(applied(&hold, &[], 1.0), None);
        assert_eq!(applied(&hold, &[Flag::ShortSummary, curvature.clone()], 0.98), None);
        let both = applied(&hold, &[Flag::VerdictConflict, stability.clone(), curvature.clone()], 0.98);
        assert_eq!(both, Some((PolicyAction::Hold, "verdict_conflict, empty_analysis:Stability".into())));
        let every_place = policy(&["empty_analysis"], &[], None);
        let both = applied(&every_place, &[stability, curvature], 0.98).expect("it is held");
        assert_eq!(both.1, "empty_analysis:Stability, empty_analysis:Curvature");
    }

    #[test]
    fn refusal_takes_precedence_over_hold() {
        let flags = [Flag::VerdictConflict, Flag::ShortSummary];
        let both = policy(&["verdict_conflict"], &["short_summary"], None);
        assert_eq!(applied(&both, &flags, 0.98), Some((PolicyAction::Refuse, "short_summary".into())));
        let minimum = policy(&["verdict_conflict"], &[], Some(0.99));
        assert_eq!(
            applied(&minimum, &flags, 0.98),
            Some((PolicyAction::Refuse, "coherence_min:0.99".into()))
        );
        assert_eq!(applied(&minimum, &flags, 0.99), Some((PolicyAction::Hold, "verdict_conflict".into())));
    }

    #[test]
    fn own_policy_of_an_application_replaces_the_common_one() {
        let quick = ProductTier::Quick;
        let shop: ApplicationName = "shop".parse().expect("a valid name");
        let policies = DeliveryPolicies {
            common: [(quick, policy(&["short_summary"], &[], None))].into(),
            applications: [((shop.clone(), quick), policy(&[], &["short_summary"], None))].into(),
        };
        let action = |application, tier| {
            let applied = policies.find(application, tier)?.decide(&decision(&[Flag::ShortSummary], 0.98))?;
            Some(applied.action)
        };
        assert_eq!(action(shop.clone(), quick), Some(PolicyAction::Refuse));
        assert_eq!(action(ApplicationName::default(), quick), Some(PolicyAction::Hold));
        assert_eq!(action(shop, ProductTier::Full), None);
    }

    #[test]
    fn selector_accepts_only_flags_of_approved_verdicts() {
        for word in FlagSelector::NAMES {
            assert!(word.parse::<FlagSelector>().is_ok(), "{word}");
        }
        // a missing strategy is also a missing field
        let is_never_approved = |flag: &Flag| {
            flag.e_d() > 0.0 || matches!(flag, Flag::StrategyMissing | Flag::DegenerateManifold)
        };
        for flag in Flag::all() {
            assert_eq!(FlagSelector::NAMES.contains(&flag.into_str()), !is_never_approved(&flag), "{flag}");
        }
        let others =
            ["", "malformed_json", "field_missing:summary", "empty_analysis:Mood", "short_summary:x"];
        for word in others.into_iter().chain(["unexpected_field:mood"]) {
            assert!(word.parse::<FlagSelector>().is_err(), "{word}");
        }
    }

    #[test]
    fn cause_text_parses_back() {
        for cause in [
            PolicyCause::Flag(Flag::UnexpectedField("mood: x".into())),
            PolicyCause::Flag(Flag::VerdictConflict),
            PolicyCause::CoherenceMin(0.991),
        ] {
            let text = serde_json::to_string(&cause).expect("the value serializes");
            assert_eq!(serde_json::from_str::<PolicyCause>(&text).expect("a cause"), cause, "{text}");
        }
    }
}
