//! What is kept of a source's answers between decisions.

use super::candidate::{Candidate, Stated};
use super::lock::HumanLock;
use crate::base::digest::Sha256Hex;
use crate::ground::digest_of_json;
use crate::ground::id::{SourceId, WorkflowId};
use crate::ground::ontology::OntologyRef;
use crate::ground::value::Value;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The most open reviews of one subject, for its present and for its past each, without those that claims alone opened. A
/// further dispute joins the latest of them that has all of its axes.
pub const OPEN_MAX: usize = 16;
/// The most open reviews of one subject that claims alone opened, for its present and for its past each.
pub const CLAIMS_OPEN_MAX: usize = 4;

/// The last good answer of a live source about one thing as it is, or as it once was: what `SERVE_STALE` may serve, and what a later
/// answer may not lie behind. It is the source's, whichever workflow has asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptAnswer {
    /// The answer, with all axes that the source has said something on; nothing where it will not be served, so that it only
    /// counts when it was issued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub candidate: Option<Candidate>,
    /// Of which past time it tells; of the present where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub point_in_time: Option<Timestamp>,
    /// By which adapter it was read.
    pub adapter_sha256: Sha256Hex,
    /// When the source issued it, by its own word, where it says so: nothing older is taken from it any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issued_at: Option<Timestamp>,
    /// The number of invalidations of the source when it was asked.
    pub invalidation_count: u64,
    /// By which tag it knows what it answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
}

impl KeptAnswer {
    /// What is left of it for a question about `point_in_time`: of an answer about another time only when it was issued.
    #[must_use]
    pub fn for_question(self, point_in_time: Option<Timestamp>) -> Self {
        let candidate = self.candidate.filter(|_| self.point_in_time == point_in_time);
        Self { candidate, ..self }
    }

    /// It without the answer itself: when it was issued.
    #[must_use]
    pub fn unserved(self) -> Self {
        Self { candidate: None, etag: None, ..self }
    }
}

/// What an answer is kept under: whose it is, of which thing, and whether it tells of the present or of the past. All of the past
/// has one: whoever asks about another moment each time does not fill the store, and an answer that was issued before the last
/// one is a replay though it was asked for about another moment.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct KeptKey {
    /// Whose.
    pub oracle_id: SourceId,
    /// The SHA-256 of the thing, and of whether it is the past.
    pub about: Sha256Hex,
}

impl KeptKey {
    /// The key of what `oracle_id` says of `thing` as of `point_in_time`; now where there is none.
    #[must_use]
    pub fn of(
        oracle_id: &SourceId,
        thing: &BTreeMap<String, Value>,
        point_in_time: Option<Timestamp>,
    ) -> Self {
        let past = point_in_time.map(|_| "past");
        Self { oracle_id: oracle_id.clone(), about: digest_of_json(&(thing, past)) }
    }
}

/// One thing as one workflow knows it: what people are to decide of it, and what they have decided.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subject {
    /// The reviews of it that are open, the oldest first.
    pub open: Vec<OpenReview>,
    /// What was decided, one lock an axis; some may have expired.
    pub locks: Vec<HumanLock>,
    /// What each source has said that nobody doubted, on axes that have a `deviation_limit`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub baselines: Baselines,
}

/// By source, and by the path of an axis.
pub type Baselines = BTreeMap<SourceId, BTreeMap<String, Baseline>>;

/// What a source has said on an axis that nobody doubted: what it says next is held against that, whenever it speaks of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Baseline {
    /// What.
    pub stated: Stated,
    /// In which version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_version: Option<String>,
    /// As of when.
    pub observed_at: Timestamp,
    /// When it was learned: the end of the run, or the retrieval.
    pub verified_at: Timestamp,
}

impl Baseline {
    /// What `candidate` says by `path`.
    #[must_use]
    pub fn of(candidate: &Candidate, path: &str) -> Option<Self> {
        Some(Self {
            stated: candidate.values.get(path)?.clone(),
            source_version: candidate.record.source_version.clone(),
            observed_at: candidate.observed_at,
            verified_at: candidate.record.verified_at,
        })
    }
}

/// A review that nobody has resolved or dismissed yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenReview {
    /// Which.
    pub review_id: String,
    /// Over which evidence: the same is not put before a person twice.
    pub evidence_hash: Sha256Hex,
    /// In the words of which ontology.
    pub ontology: OntologyRef,
    /// Which axes it is about, by their paths.
    pub axes: BTreeSet<String>,
    /// Whether a claim alone opened it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub of_claim: bool,
}

/// What a subject is known under.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SubjectKey {
    /// In which workflow.
    pub workflow_id: WorkflowId,
    /// The SHA-256 of the entity and of whether the question is about the present.
    pub about: Sha256Hex,
}

impl SubjectKey {
    /// The key of an entity in a workflow. All questions about its past share one key, so that a client that varies the time
    /// does not open a review for each time.
    #[must_use]
    pub fn of(workflow_id: &WorkflowId, thing: &BTreeMap<String, Value>, is_about_the_present: bool) -> Self {
        Self { workflow_id: workflow_id.clone(), about: digest_of_json(&(thing, is_about_the_present)) }
    }
}
