//! Everything that a decision depends on.

use super::call::Call;
use super::kept::OpenReview;
use super::lock::HumanLock;
use super::request::Question;
use super::workflow::{Granularity, PartialConflict, Workflow};
use crate::base::digest::Sha256Hex;
use crate::base::moment::past_time;
use crate::ground::axis::Axis;
use crate::ground::digest_of_json;
use crate::ground::id::SourceId;
use crate::ground::ontology::Ontology;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What goes into [`super::decide`]; the log holds it, so that the decision can be taken again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Inputs {
    /// The name of this decision.
    pub execution_id: String,
    /// Whether the caller waits for it.
    pub stage: Stage,
    /// Whether the oracles have been asked once more already, so that conflicts are settled now.
    pub reverified: bool,
    /// By which workflow.
    pub workflow: Workflow,
    /// The identity axes of its ontology: what `where` has to fix.
    pub identity: Vec<String>,
    /// The axes that are looked at, by the paths asked for, as they stand in the ontology: those of the question, and all of
    /// the workflow's where a conflict takes more with it than its own axis.
    pub axes: BTreeMap<String, Axis>,
    /// What is asked.
    pub question: Question,
    /// What came of asking each oracle. In whatever order they answered, the workflow's is the one that counts.
    pub calls: BTreeMap<SourceId, Call>,
    /// What people have decided of this thing.
    pub locks: Vec<HumanLock>,
    /// What people are to decide of it already.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open_reviews: Vec<OpenReview>,
    /// Whether so many questions wait for people that none more is put before them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub queue_is_full: bool,
    /// When it was asked.
    pub asked_at: Timestamp,
    /// When it is decided.
    pub decided_at: Timestamp,
    /// How long the caller has waited by then, in milliseconds.
    pub elapsed_ms: u64,
}

/// When a decision is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// While the caller waits.
    First,
    /// Afterwards, where the workflow says `ASYNC`.
    Delayed,
}

impl Question {
    /// Whether it asks about the present state, as known now.
    #[must_use]
    pub const fn is_about_the_present(&self) -> bool {
        self.point_in_time.is_none() && self.known_at.is_none()
    }

    /// The time as of which answers are judged, for a question asked at `now`.
    #[must_use]
    pub fn as_of(&self, now: Timestamp) -> Timestamp {
        past_time(self.point_in_time, self.known_at, now).unwrap_or(now)
    }
}

impl Inputs {
    /// The inputs of a decision of which nothing has come yet: no calls, no locks.
    #[must_use]
    pub fn new(
        execution_id: String,
        workflow: Workflow,
        ontology: &Ontology,
        question: Question,
        asked_at: Timestamp,
    ) -> Self {
        let scope = workflow.conflict_resolution.scope;
        let reaches_further = scope.granularity == Granularity::Oracle
            || scope.partial_conflict_behavior == PartialConflict::InvalidateAll;
        let others = workflow.axes.iter().filter(|_| reaches_further);
        let found = |path: &String| Some((path.clone(), ontology.axis(path)?.clone()));
        let others = others.filter_map(found).filter(|(_, axis)| !axis.is_group());
        let axes = question.axes.iter().filter_map(found).chain(others).collect();
        Self {
            execution_id,
            stage: Stage::First,
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

    /// Which paths an oracle that provides `axes_provided` is asked for.
    #[must_use]
    pub fn paths_for(&self, axes_provided: &[String]) -> Vec<String> {
        let provided = self.axes.iter().filter(|(_, axis)| axes_provided.contains(&axis.axis));
        provided.map(|(path, _)| path.clone()).collect()
    }

    /// The SHA-256 of their canonical JSON.
    #[must_use]
    pub fn digest(&self) -> Sha256Hex {
        digest_of_json(self)
    }

    /// The identity axes that the question leaves open.
    pub(super) fn unfixed(&self) -> Vec<&str> {
        let open = self.identity.iter().filter(|axis| !self.question.thing.contains_key(*axis));
        open.map(String::as_str).collect()
    }

    /// The moment whose state is asked for: answers are as old as they were then.
    #[must_use]
    pub fn as_of(&self) -> Timestamp {
        match self.question.known_at {
            Some(_) => self.question.as_of(self.decided_at),
            None => self.question.point_in_time.unwrap_or(self.decided_at),
        }
    }
}
