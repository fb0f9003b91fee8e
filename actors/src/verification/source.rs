//! One source asked: the store for what was ingested, the source itself where it is live.

use super::Verifier;
use super::keeping::Kept;
use crate::ground::queries::{Asked, Heard, QueryError};
use crate::ground::registry::policy_of;
use crate::platform::clock::stopwatch;
use crate::platform::door::NoAnswer;
use crate::upstream::oracle_health::{Lease, Oracle, Permit, PermitError, Watch};
use jiff::Timestamp;
use oracled_domain::OracleId;
use oracled_domain::base::moment::past_time;
use oracled_domain::ground::freshness::AxisFreshness;
use oracled_domain::ground::id::SourceId;
use oracled_domain::ground::source::{OracleTier, ReviewStatus, Standing};
use oracled_domain::ground::timeline::Scope;
use oracled_domain::verdict::health::Outcome;
use oracled_domain::verification::adapter::Ready;
use oracled_domain::verification::workflow::Workflow;
use oracled_domain::verification::{
    Call, Candidate, Cut, Failure, Inputs, KeptAnswer, KeptKey, Refusal, Reply,
};
use oracled_store::ground::view::SourceView;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout_at;

/// The longest answer that is decided over or kept, as JSON, in bytes: the log keeps it with the decision, the store until it
/// counts for nothing.
const CANDIDATE_MAX_BYTES: usize = 64 << 10;

/// Who has not answered by then has failed, however patient a workflow is.
const PATIENCE_MAX_MS: u64 = 1000;

/// What one source is to be asked.
pub(super) struct Errand {
    pub(super) oracle_id: SourceId,
    pub(super) view: Arc<SourceView>,
    /// How it is asked and read where it is live.
    pub(super) adapter: Option<Arc<Ready>>,
    /// The axes, by their paths; of those it has.
    paths: Vec<String>,
    /// What is asked, for all sources the same; of what comes of it nothing.
    pub(super) inputs: Arc<Inputs>,
    warnings: Vec<String>,
}

/// What came of it.
pub(super) struct Answered {
    pub(super) call: Call,
    pub(super) keep: Option<Kept>,
    /// What it said of the same before, where what was ingested tells that.
    pub(super) before: Option<Box<Candidate>>,
}

/// What it said, before anybody has looked at it.
pub(super) struct Said {
    pub(super) reply: Reply,
    /// What it said of the same before.
    pub(super) before: Option<Box<Candidate>>,
    pub(super) keep: Option<KeptAnswer>,
    pub(super) warnings: Vec<String>,
    pub(super) outcome: Outcome,
}

impl Errand {
    /// How far the source is trusted, as registered.
    pub(super) fn tier(&self) -> OracleTier {
        self.view.state.entry.registration.oracle_tier
    }

    /// The call as it is at `asked_at`, before an answer has come.
    pub(super) fn unanswered(&self, asked_at: Timestamp) -> Call {
        Call {
            oracle_tier: self.tier(),
            axes: self.paths.clone(),
            asked_at: Some(asked_at),
            ended_at: None,
            latency_ms: 0,
            cache_hit: false,
            reply: Reply::NotAwaited,
            kept: None,
            warnings: self.warnings.clone(),
        }
    }

    pub(super) fn kept_key(&self) -> KeptKey {
        let question = &self.inputs.question;
        KeptKey::of(&self.oracle_id, &question.thing, question.point_in_time)
    }

    /// What is kept of an answer, by the adapter: one that is long, or of a past that is asked about anew each time, is not served
    /// again.
    fn to_keep(&self, adapter: &Ready, answer: KeptAnswer) -> Kept {
        let may_be_served = adapter.keep_seconds(self.inputs.question.point_in_time).is_some()
            && answer.candidate.as_ref().is_some_and(is_short);
        let answer = KeptAnswer { invalidation_count: self.view.state.invalidation_count, ..answer };
        Kept { key: self.kept_key(), answer, may_be_served }
    }

    /// The answer to decide on: only the requested axes, with their freshness. `invalidation_count` is the number of
    /// invalidations when the source was asked.
    pub(super) fn looked_at(
        &self,
        mut candidate: Candidate,
        invalidation_count: u64,
        now: Timestamp,
    ) -> Candidate {
        candidate.values.retain(|path, _| self.paths.contains(path));
        if self.adapter.is_some() {
            candidate.freshness = self.freshness(&candidate, invalidation_count, now);
        }
        candidate
    }

    /// How fresh the answer of a live source is, each axis by its policy.
    fn freshness(
        &self,
        candidate: &Candidate,
        invalidation_count: u64,
        now: Timestamp,
    ) -> Vec<AxisFreshness> {
        let (state, question) = (&self.view.state, &self.inputs.question);
        let past = past_time(question.point_in_time, question.known_at, now);
        // the count is exact; what the source itself says of its age counts beside it
        let says_its_age = self.adapter.as_ref().is_some_and(|ready| ready.adapter().observed_at.is_some());
        let is_from_before = |at: &Timestamp| match past {
            None => {
                invalidation_count < state.invalidation_count || (says_its_age && candidate.observed_at < *at)
            }
            Some(_) => candidate.observed_at < *at,
        };
        let invalidated_at = state.invalidated_at(past, Scope::default()).filter(is_from_before);
        let paths: Vec<_> = self.paths.iter().map(String::as_str).collect();
        let policy = policy_of(state, &self.view.ontology);
        policy.evaluate(&paths, Some(candidate.observed_at), invalidated_at, past.unwrap_or(now)).axes
    }
}

impl Verifier {
    /// What `oracle_id` is to be asked; where it is not to be asked, the call that this comes to.
    pub(super) fn errand(&self, inputs: &Arc<Inputs>, oracle_id: &SourceId) -> Result<Errand, Box<Call>> {
        let unasked = |oracle_tier, reply| {
            Box::new(Call {
                oracle_tier,
                axes: Vec::new(),
                asked_at: None,
                ended_at: None,
                latency_ms: 0,
                cache_hit: false,
                reply,
                kept: None,
                warnings: Vec::new(),
            })
        };
        let failed = |cause: String| {
            // nobody knows how far it is trusted: a source that decides is missing
            unasked(OracleTier::Primary, Reply::Failed { failure: Failure::Internal, cause })
        };
        let view = self.store.view(oracle_id).map_err(|error| failed(error.to_string()))?;
        let view = view.ok_or_else(|| failed("it is not registered".into()))?;
        let registration = &view.state.entry.registration;
        let tier = registration.oracle_tier;
        let not_asked = |cause: String| unasked(tier, Reply::NotAsked { cause });
        if registration.ontology != inputs.workflow.ontology {
            // the others do not decide without it: the workflow has to be registered anew
            let cause = format!("it speaks of {} by now, and the workflow does not", registration.ontology);
            return Err(unasked(tier, Reply::Failed { failure: Failure::Internal, cause }));
        }
        let paths = inputs.paths_for(&registration.axes_provided);
        if paths.is_empty() {
            return Err(not_asked("it has none of the axes".into()));
        }
        let cannot_be_asked = |cause: String| {
            let reply = Reply::Failed { failure: Failure::Internal, cause };
            Box::new(Call { axes: paths.clone(), ..*unasked(tier, reply) })
        };
        let warnings = match view.state.entry.standing(self.clock.now()) {
            Standing::Answers => Vec::new(),
            Standing::AnswersWithWarning(warning) => vec![warning],
            Standing::Silent(why) if view.state.entry.review_status == ReviewStatus::Pending => {
                // whoever named it in the workflow wants it heard: it is not passed over for as long as it is not approved
                return Err(cannot_be_asked(why));
            }
            Standing::Silent(why) => return Err(not_asked(why)),
        };
        let adapter = self.adapter(&view).map_err(cannot_be_asked)?;
        if adapter.is_some() && inputs.question.known_at.is_some() {
            let cause = "a live source cannot be asked for what was known at an earlier time (`known_at`)";
            return Err(cannot_be_asked(cause.into()));
        }
        let (oracle_id, inputs) = (oracle_id.clone(), Arc::clone(inputs));
        Ok(Errand { oracle_id, view, adapter, paths, inputs, warnings })
    }

    /// Asks a source, until `limit`, which is there because of `cut`. What is kept of it takes the place of no answer where it
    /// is asked once more.
    pub(super) async fn ask(&self, errand: Errand, limit: Duration, cut: Cut, is_again: bool) -> Answered {
        let (began, asked_at) = (stopwatch(), self.clock.now());
        let call = errand.unanswered(asked_at);
        if let Some(candidate) = self.still_fresh(&errand, asked_at).filter(|_| !is_again) {
            // nobody is called, so that nobody's leave is needed
            let call = Call { ended_at: Some(asked_at), cache_hit: true, reply: bounded(candidate), ..call };
            return Answered { call, keep: None, before: None };
        }
        let lease = match self.lease(&errand.oracle_id).await {
            Ok(lease) => lease,
            Err(reply) => {
                // it was not called
                let kept = self.in_its_place(&errand);
                return Answered {
                    call: Call { asked_at: None, reply, kept, ..call },
                    keep: None,
                    before: None,
                };
            }
        };
        let said = timeout_at(began + limit, self.said(&errand)).await;
        let latency_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let said = said.unwrap_or_else(|_| Said::bare(Reply::TimedOut { cut }));
        let Said { reply, before, keep, warnings, outcome } = said;
        lease.report(match (&reply, outcome) {
            (Reply::TimedOut { .. }, _) => self.outlasted(&errand.oracle_id, latency_ms),
            (_, Outcome::Success { .. }) => Outcome::Success { latency_ms: Some(latency_ms) },
            (_, outcome) => outcome,
        });
        let now = self.clock.now();
        let keep = errand.adapter.as_ref().zip(keep).map(|(adapter, answer)| errand.to_keep(adapter, answer));
        let reply = match reply {
            Reply::Answered { candidate } => {
                bounded(errand.looked_at(*candidate, errand.view.state.invalidation_count, now))
            }
            reply => reply,
        };
        let has_none = |reply: &Reply| {
            matches!(reply, Reply::Failed { .. } | Reply::Refused { .. } | Reply::TimedOut { .. })
        };
        let kept = if has_none(&reply) { self.in_its_place(&errand) } else { None };
        let warnings = call.warnings.iter().cloned().chain(warnings).collect();
        let ended_at = (!matches!(reply, Reply::TimedOut { .. })).then_some(now);
        let call = Call { ended_at, latency_ms, reply, kept, warnings, ..call };
        Answered { call, keep, before }
    }

    /// What it says of a source's health that no answer came within this time. How little time one workflow gives it says
    /// nothing of it, as long as another one would have waited on before calling it late.
    fn outlasted(&self, oracle_id: &SourceId, latency_ms: u64) -> Outcome {
        let workflows = match self.store.all_registered::<Workflow>() {
            Ok(workflows) => workflows,
            Err(error) => {
                tracing::error!(%oracle_id, %error, "workflows cannot be read: a timeout is not counted");
                return Outcome::Neutral;
            }
        };
        let ask_it = workflows.iter().filter(|known| known.document.oracles.contains(oracle_id));
        let soft_ms = ask_it.map(|known| known.document.oracle_latency.soft_timeout_ms).max();
        // a call may end a little before its time, so that there is some left for deciding
        let patience_ms = soft_ms.unwrap_or(0).min(PATIENCE_MAX_MS) * 9 / 10;
        if latency_ms < patience_ms {
            return Outcome::Neutral;
        }
        Outcome::Failure(format!("no answer within {latency_ms} ms"))
    }

    /// What the source says.
    async fn said(&self, errand: &Errand) -> Said {
        match &errand.adapter {
            Some(adapter) => self.live(errand, adapter).await,
            None => self.ingested(errand).await,
        }
    }

    async fn ingested(&self, errand: &Errand) -> Said {
        let Inputs { question, workflow, .. } = &*errand.inputs;
        let asked = Asked {
            oracle_id: errand.oracle_id.clone(),
            thing: question.thing.clone(),
            paths: errand.paths.clone(),
            point_in_time: question.point_in_time,
            known_at: question.known_at,
            looks_back: !workflow.deviation_limits.is_empty(),
        };
        match self.doors.queries.heard(asked).await {
            Ok(Heard { reply, before, warnings }) => {
                let outcome = Outcome::Success { latency_ms: None };
                Said { reply, before, keep: None, warnings, outcome }
            }
            Err(error) => {
                let cause = error.to_string();
                let outcome = match &error {
                    QueryError::Store(_) | QueryError::Reading(_) => Outcome::Failure(cause.clone()),
                    _ => Outcome::Neutral,
                };
                Said { outcome, ..Said::failed(cause) }
            }
        }
    }

    /// Has a source's health watched, if it is not.
    pub(super) async fn watch(&self, oracle_id: &SourceId) -> Result<(), NoAnswer> {
        let oracle = Oracle { id: watched_as(oracle_id), config: self.config.health, probe: None };
        self.doors.oracle_health.ask(Watch(oracle)).await
    }

    /// The leave to ask a source; else what is to be said instead of its answer.
    async fn lease(&self, oracle_id: &SourceId) -> Result<Lease, Reply> {
        let id = watched_as(oracle_id);
        let failed = |cause: String| Reply::Failed { failure: Failure::Internal, cause };
        let health = &self.doors.oracle_health;
        let mut permit = health.ask(Permit(id.clone())).await.map_err(|error| failed(error.to_string()))?;
        if let Err(PermitError::Unknown(_)) = permit {
            self.watch(oracle_id).await.map_err(|error| failed(error.to_string()))?;
            permit = health.ask(Permit(id)).await.map_err(|error| failed(error.to_string()))?;
        }
        permit.map_err(|error| match error {
            PermitError::CircuitOpen { retry_after, .. } => {
                let ms = |wait: Duration| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
                Reply::CircuitOpen { retry_after_ms: retry_after.map(ms) }
            }
            error @ (PermitError::Unknown(_) | PermitError::QuotaWait { .. }) => failed(error.to_string()),
        })
    }
}

impl Said {
    pub(super) fn failed(cause: String) -> Self {
        Self::bare(Reply::Failed { failure: Failure::Internal, cause })
    }

    /// A reply without an answer, which says nothing of the source's health.
    const fn bare(reply: Reply) -> Self {
        Self { reply, before: None, keep: None, warnings: Vec::new(), outcome: Outcome::Neutral }
    }
}

/// The name under which a source's health is watched; no other oracle has it.
pub(super) fn watched_as(oracle_id: &SourceId) -> OracleId {
    format!("source:{oracle_id}")
        .parse()
        .expect("an id of a source, with this before it, is one of an oracle")
}

/// An answer that is not too long to be decided over.
pub(super) fn bounded(candidate: Candidate) -> Reply {
    if is_short(&candidate) {
        return Reply::Answered { candidate: Box::new(candidate) };
    }
    let cause = format!("it is longer than {CANDIDATE_MAX_BYTES} bytes");
    Reply::Refused { refusal: Refusal::Schema, cause }
}

fn is_short(candidate: &Candidate) -> bool {
    serde_json::to_vec(candidate).is_ok_and(|json| json.len() <= CANDIDATE_MAX_BYTES)
}
