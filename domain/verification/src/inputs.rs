//! Everything that a decision depends on.

use super::oracle_call::OracleCall;
use super::request::VerificationQuestion;
use super::stored_state::OpenReview;
use super::workflow::{ConflictGranularity, PartialConflictBehavior, Workflow};
use crate::stored_state::HumanLock;
use domain_base::caller::RequestOwner;
use domain_base::digest::{Sha256Hex, digest_of_json};
use domain_base::moment::find_past_time;
use domain_base::row::{IndexEntry, KeyedRow, Row, RowData, Table, check_row, not_indexed};
use domain_ground::axis::Axis;
use domain_ground::id::SourceId;
use domain_ground::ontology::Ontology;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The inputs of a decision. The log contains them, so that the decision can be computed again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DecisionInputs {
    /// The execution id of the decision.
    pub execution_id: String,
    /// The owner of the verification; absent in entries of earlier versions, whose owner is their caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub owner: Option<RequestOwner>,
    /// Whether the caller waits for the decision.
    pub stage: DecisionStage,
    /// Whether the oracles were already queried again, so that conflicts are settled now.
    pub reverified: bool,
    /// The workflow.
    pub workflow: Workflow,
    /// The identity axes of the ontology, which `where` must fix.
    pub identity: Vec<String>,
    /// The compared axes by their requested paths, as the ontology defines them: the axes of the question, and all axes of
    /// the workflow if a conflict affects more than its own axis.
    pub axes: BTreeMap<String, Axis>,
    /// The question.
    pub question: VerificationQuestion,
    /// The call of each oracle. The order of the answers does not matter: the workflow's order counts.
    pub calls: BTreeMap<SourceId, OracleCall>,
    /// The reviewers' decisions about this subject.
    pub locks: Vec<HumanLock>,
    /// The open reviews of this subject.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open_reviews: Vec<OpenReview>,
    /// Whether the review queue is full, so that no further review is opened.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub queue_is_full: bool,
    /// The time of the request.
    pub asked_at: Timestamp,
    /// The time of the decision.
    pub decided_at: Timestamp,
    /// How long the caller has waited at the time of the decision, in milliseconds.
    pub elapsed_ms: u64,
}

/// When a decision is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DecisionStage {
    /// While the caller waits.
    First,
    /// Later, in the mode `ASYNC`.
    Delayed,
}

impl VerificationQuestion {
    /// Whether it asks about the present state, as known now.
    #[must_use]
    pub const fn is_about_the_present(&self) -> bool {
        self.point_in_time.is_none() && self.known_at.is_none()
    }

    /// The time as of which answers are judged, for a question asked at `now`.
    #[must_use]
    pub fn as_of(&self, now: Timestamp) -> Timestamp {
        find_past_time(self.point_in_time, self.known_at, now).unwrap_or(now)
    }
}

impl DecisionInputs {
    /// The inputs of a decision without calls and locks.
    #[must_use]
    pub fn new(
        execution_id: String,
        workflow: Workflow,
        ontology: &Ontology,
        question: VerificationQuestion,
        asked_at: Timestamp,
    ) -> Self {
        let scope = workflow.conflict_resolution.scope;
        let reaches_further = scope.granularity == ConflictGranularity::Oracle
            || scope.partial_conflict_behavior == PartialConflictBehavior::InvalidateAll;
        let others = workflow.axes.iter().filter(|_| reaches_further);
        let found = |path: &String| Some((path.clone(), ontology.axis(path)?.clone()));
        let others = others.filter_map(found).filter(|(_, axis)| !axis.is_group());
        let axes = question.axes.iter().filter_map(found).chain(others).collect();
        Self {
            execution_id,
            owner: None,
            stage: DecisionStage::First,
            reverified: false,
            identity: ontology.identity().map(|axis| axis.axis.clone()).collect(),
            axes,
            workflow,
            question,
            calls: BTreeMap::new(),
            locks: Vec::new(),
            open_reviews: Vec::new(),
            queue_is_full: false,
            asked_at,
            decided_at: asked_at,
            elapsed_ms: 0,
        }
    }

    /// The paths for which an oracle that provides `axes_provided` is queried.
    #[must_use]
    pub fn paths_for(&self, axes_provided: &[String]) -> Vec<String> {
        let provided = self.axes.iter().filter(|(_, axis)| axes_provided.contains(&axis.axis));
        provided.map(|(path, _)| path.clone()).collect()
    }

    /// The SHA-256 of the canonical JSON.
    #[must_use]
    pub fn digest(&self) -> Sha256Hex {
        digest_of_json(self)
    }

    /// The identity axes that the question leaves open.
    pub(super) fn unspecified_axes(&self) -> Vec<&str> {
        let open = self.identity.iter().filter(|axis| !self.question.subject.contains_key(*axis));
        open.map(String::as_str).collect()
    }

    /// The requested time. The age of answers is computed for it.
    #[must_use]
    pub fn as_of(&self) -> Timestamp {
        match self.question.known_at {
            Some(_) => self.question.as_of(self.decided_at),
            None => self.question.point_in_time.unwrap_or(self.decided_at),
        }
    }
}

impl Row for DecisionInputs {
    type Key = String;
    const TABLE: &'static Table = &Table {
        name: "pending",
        bundle: None,
        data: RowData::Verification,
        is_new_work: true,
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

impl KeyedRow for DecisionInputs {
    fn key(&self) -> String {
        self.execution_id.clone()
    }
}
