//! Reviews: what is put before a person, and what they decide.

mod said;

use super::decide::dispute::Dispute;
use crate::base::blank::is_blank;
pub use said::DEFINITION_MAX_BYTES;

use super::call::CallOutcome;
use super::candidate::Candidate;
use super::envelope::Envelope;
use super::inputs::Inputs;
use super::kept::{Baseline, OpenReview};
use super::lock::HumanLock;
use super::reason::Reason;
use super::request::{Claim, values_as_written};
use crate::base::digest::Sha256Hex;
use crate::ground::freshness::MAX_AGE_S;
use crate::ground::id::{SourceId, WorkflowId};
use crate::ground::ontology::{Ontology, OntologyRef};
use crate::ground::query::typed;
use crate::ground::value::Value;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};

/// The longest reason of a resolution, in bytes.
pub const REASON_MAX_BYTES: usize = 4096;
/// The longest validity of a resolution, in seconds.
pub const VALIDITY_MAX_S: u64 = MAX_AGE_S;

/// The most open reviews of one workflow. Beyond it, further questions for a reviewer are `blocked`.
pub const QUEUE_MAX: u64 = 10_000;
/// The most open reviews of all workflows.
pub const QUEUE_TOTAL_MAX: u64 = 50_000;
/// The most open reviews of one workflow that callers can open at will ([`Review::is_caller_openable`]). They have a limit of
/// their own, so that they do not use up [`QUEUE_MAX`], which is for disputes between sources about the present.
pub const CALLERS_QUEUE_MAX: u64 = 1_000;
/// The most open reviews of all workflows that callers can open at will.
pub const CALLERS_QUEUE_TOTAL_MAX: u64 = 5_000;

/// One question that a person has to decide, with everything that they need for that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Review {
    /// Its name: that of the decision that it comes of.
    pub review_id: String,
    /// In which workflow.
    pub workflow_id: WorkflowId,
    /// In the words of which ontology.
    pub ontology: OntologyRef,
    /// Of which thing.
    #[serde(rename = "where")]
    pub thing: BTreeMap<String, Value>,
    /// Of its state at which time; of the present one where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub point_in_time: Option<Timestamp>,
    /// The time by which the data was known; `None` for all that is known now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known_at: Option<Timestamp>,
    /// The axes to decide, by their paths, each with the reasons.
    pub axes: BTreeMap<String, BTreeSet<Reason>>,
    /// The outcome of the call of each oracle of the workflow.
    pub sources: BTreeMap<SourceId, CallOutcome>,
    /// The answer of each oracle, with its provenance. For an oracle that was too slow or not reachable, its last
    /// cached answer.
    pub candidates: BTreeMap<SourceId, Candidate>,
    /// What somebody claims.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub claimed: BTreeMap<String, Claim>,
    /// Whether a claim alone opened it: the sources settle all of its axes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub of_claim: bool,
    /// The SHA-256 of the question without its times, of the answers, and of the claims if a claim alone opened the review. A
    /// repeated dispute has the same SHA-256.
    pub evidence_hash: Sha256Hex,
    /// The SHA-256 of the envelope.
    pub envelope_sha256: Sha256Hex,
    /// Since when.
    pub opened_at: Timestamp,
}

/// What a reviewer decides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resolution {
    /// The value of every axis of the review; numbers are taken as they are written, or not at all.
    #[serde(deserialize_with = "values_as_written")]
    pub values: BTreeMap<String, Json>,
    /// By which definitions the values are meant, by their axes; "" is the axis's own. Where the candidates do not all mean
    /// the same it has to be said.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub definitions: BTreeMap<String, String>,
    /// Whether values are meant that neither a candidate nor a claim says: without this word they are taken for slips.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub own_value: bool,
    /// Why.
    pub reason: String,
    /// For how long it holds, in seconds.
    pub valid_for_seconds: u64,
}

/// A review, and what became of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReviewState {
    /// What was put before a person.
    pub review: Review,
    /// What they decided; nothing where it is open or dismissed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved: Option<Resolved>,
    /// Who has taken that back; nothing while it stands, or has expired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<Revoked>,
    /// Who has closed it without deciding anything; nothing where it is open or resolved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dismissed: Option<Dismissed>,
}

/// What a person decided, and who it was.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resolved {
    /// What.
    pub resolution: Resolution,
    /// Who.
    pub verifier_id: String,
    /// When.
    pub resolved_at: Timestamp,
    /// What sources were held against before their jumps were confirmed by this.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub held_against: HeldAgainst,
}

/// What sources were held against, by source and by the path of an axis; nothing where no decision had told of it before.
pub type HeldAgainst = BTreeMap<SourceId, BTreeMap<String, Option<Baseline>>>;

/// That a resolution is taken back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Revocation {
    /// Why.
    pub reason: String,
}

/// Who has taken a resolution back, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Revoked {
    /// Why.
    pub reason: String,
    /// Who.
    pub verifier_id: String,
    /// When.
    pub revoked_at: Timestamp,
}

/// That a review is closed, and nothing is decided of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dismissal {
    /// Why.
    pub reason: String,
}

/// Who has closed a review without deciding anything, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dismissed {
    /// Why.
    pub reason: String,
    /// Who.
    pub verifier_id: String,
    /// When.
    pub dismissed_at: Timestamp,
}

/// Why a resolution is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadResolution {
    /// The ontology is another one than the review's.
    #[error("the review is about {wanted}, and not about {given}")]
    OtherOntology {
        /// The review's.
        wanted: OntologyRef,
        /// Against which it is read.
        given: OntologyRef,
    },
    /// The axes are not those of the review.
    #[error("`values` names {named}; every axis of the review is decided, and no other: {wanted}")]
    Axes {
        /// What it names.
        named: String,
        /// What it has to name.
        wanted: String,
    },
    /// A value is none of its axis.
    #[error("`values.{axis}`: {fault}")]
    Value {
        /// Which.
        axis: String,
        /// What is wrong with it.
        fault: String,
    },
    /// It does not say by which definition it decides.
    #[error(
        "`definitions.{axis}` has to say by which definition the value is meant, since not all mean the same; what was said: {said}"
    )]
    NoDefinition {
        /// Which axis.
        axis: String,
        /// By which definitions there are values.
        said: String,
    },
    /// A definition is of an axis that is not decided.
    #[error("`definitions.{axis}`: no axis of the review has that name")]
    OtherDefinition {
        /// Which.
        axis: String,
    },
    /// A definition is too long.
    #[error("`definitions.{axis}` has {bytes} bytes; at the most {DEFINITION_MAX_BYTES}")]
    LongDefinition {
        /// Of which axis.
        axis: String,
        /// How long it is, in bytes.
        bytes: usize,
    },
    /// Nobody says the value, and that it is meant so is not said either.
    #[error(
        "`values.{axis}`: nobody says {value}; what was said: {said}. With `own_value` (`--own-value`) it is taken all the same"
    )]
    NobodySays {
        /// Of which axis.
        axis: String,
        /// The value, with its definition.
        value: String,
        /// What was said.
        said: String,
    },
    /// There is no reason, or too long a one.
    #[error("`reason` has 1 to {REASON_MAX_BYTES} bytes")]
    Reason,
    /// The validity is out of bounds.
    #[error("`valid_for_seconds` is {seconds}; allowed: 1 to {most} s")]
    Validity {
        /// What it is.
        seconds: u64,
        /// What it may be: less where the ontology allows no value to be so old.
        most: u64,
    },
}

impl Review {
    /// What is put before a person over `envelope`, which came of `inputs`; nothing where it is not for a person, or the same
    /// is before one already.
    #[must_use]
    pub fn of(inputs: &Inputs, envelope: &Envelope) -> Option<Self> {
        let is_new = envelope.review_id.as_ref() == Some(&envelope.execution_id);
        let Dispute { axes, candidates, of_claim, evidence_hash } =
            Dispute::of(inputs, envelope).filter(|_| is_new)?;
        Some(Self {
            review_id: envelope.execution_id.clone(),
            workflow_id: envelope.workflow.clone(),
            ontology: envelope.ontology.clone(),
            thing: envelope.thing.clone(),
            point_in_time: envelope.point_in_time,
            known_at: envelope.known_at,
            axes,
            sources: envelope
                .candidates
                .iter()
                .map(|outcome| (outcome.oracle_id.clone(), outcome.outcome))
                .collect(),
            candidates,
            claimed: inputs.question.claimed.clone(),
            of_claim,
            evidence_hash,
            envelope_sha256: envelope.sha256.clone(),
            opened_at: envelope.decided_at,
        })
    }

    /// It among those of its thing that are open.
    #[must_use]
    pub fn as_open(&self) -> OpenReview {
        OpenReview {
            review_id: self.review_id.clone(),
            evidence_hash: self.evidence_hash.clone(),
            ontology: self.ontology.clone(),
            axes: self.axes.keys().cloned().collect(),
            of_claim: self.of_claim,
        }
    }

    /// Whether it is about the present state, as known now.
    #[must_use]
    pub const fn is_about_the_present(&self) -> bool {
        self.point_in_time.is_none() && self.known_at.is_none()
    }

    /// Whether callers can open such reviews at will: by a claim, by choosing a past time, or by naming an entity that no
    /// source has answered for.
    #[must_use]
    pub fn is_caller_openable(&self) -> bool {
        self.of_claim || !self.is_about_the_present() || self.candidates.is_empty()
    }

    /// Whether its resolution also decides `other`, a review of the same subject: both have the same ontology and the same
    /// times, and it has all axes of `other`.
    #[must_use]
    pub fn settles(&self, other: &Self) -> bool {
        let times = |review: &Self| (review.point_in_time, review.known_at);
        self.ontology == other.ontology
            && times(self) == times(other)
            && other.axes.keys().all(|axis| self.axes.contains_key(axis))
    }

    /// The locks that `resolution` comes to, one an axis; `verifier_id` decided it at `now`.
    ///
    /// # Errors
    /// What is wrong with it, and what is allowed.
    pub fn resolve(
        &self,
        ontology: &Ontology,
        resolution: &Resolution,
        verifier_id: &str,
        now: Timestamp,
    ) -> Result<Vec<HumanLock>, BadResolution> {
        if self.ontology != ontology.reference() {
            let (wanted, given) = (self.ontology.clone(), ontology.reference());
            return Err(BadResolution::OtherOntology { wanted, given });
        }
        if !self.axes.keys().eq(resolution.values.keys()) {
            let joined = |mut names: Vec<&str>| {
                names.truncate(self.axes.len().max(1) * 2);
                names.join(", ")
            };
            return Err(BadResolution::Axes {
                named: joined(resolution.values.keys().map(String::as_str).collect()),
                wanted: joined(self.axes.keys().map(String::as_str).collect()),
            });
        }
        self.check_definitions(&resolution.definitions)?;
        let reason = checked(&resolution.reason)?;
        let lock = |(path, value): (&String, &Json)| {
            let bad = |fault| BadResolution::Value { axis: path.clone(), fault };
            let axis = ontology.axis(path).ok_or_else(|| bad("the ontology has no such axis".into()))?;
            let most = axis.max_ttl_seconds.unwrap_or(VALIDITY_MAX_S).min(VALIDITY_MAX_S);
            let seconds = resolution.valid_for_seconds;
            if !(1..=most).contains(&seconds) {
                return Err(BadResolution::Validity { seconds, most });
            }
            let value = typed(value, axis).map_err(bad)?;
            let definition = self.definition_by(resolution, path)?;
            if !resolution.own_value {
                self.check_said(path, axis, &value, definition.as_deref())?;
            }
            let validity = SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX));
            Ok(HumanLock {
                review_id: self.review_id.clone(),
                workflow_id: self.workflow_id.clone(),
                ontology: self.ontology.clone(),
                thing: self.thing.clone(),
                point_in_time: self.point_in_time,
                known_at: self.known_at,
                axis: path.clone(),
                value: value.into_value(),
                definition,
                verifier_id: verifier_id.to_owned(),
                reason: reason.to_owned(),
                verified_at: now,
                valid_until: now.saturating_add(validity).unwrap_or(Timestamp::MAX),
                evidence_hash: self.evidence_hash.clone(),
            })
        };
        resolution.values.iter().map(lock).collect()
    }
}

impl ReviewState {
    /// `review` as it is opened: nobody has said anything of it.
    #[must_use]
    pub const fn opened(review: Review) -> Self {
        Self { review, resolved: None, revoked: None, dismissed: None }
    }

    /// Whether it waits for a person.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        self.resolved.is_none() && self.dismissed.is_none()
    }
}

impl Revocation {
    /// Whether it can be meant.
    ///
    /// # Errors
    /// Where it has no reason, or too long a one.
    pub fn check(&self) -> Result<(), BadResolution> {
        checked(&self.reason).map(drop)
    }
}

impl Dismissal {
    /// Its reason, within its bounds.
    ///
    /// # Errors
    /// Where it has none, or too long a one.
    pub fn checked(&self) -> Result<&str, BadResolution> {
        checked(&self.reason)
    }
}

/// A reason within its bounds.
fn checked(reason: &str) -> Result<&str, BadResolution> {
    let reason = reason.trim();
    let is_one = !is_blank(reason) && reason.len() <= REASON_MAX_BYTES;
    is_one.then_some(reason).ok_or(BadResolution::Reason)
}
