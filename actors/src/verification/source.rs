//! Querying one source: the store for an ingested source, the source itself for a live one.

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

/// The longest answer that is used or cached, in bytes of JSON. The log stores it with the decision, and the store caches
/// it until it expires.
const CANDIDATE_MAX_BYTES: usize = 64 << 10;

/// A timeout after this number of milliseconds counts as a failure of the source, even if all workflows have longer soft
/// timeouts.
const PATIENCE_MAX_MS: u64 = 1000;

/// The query to one source.
pub(super) struct Errand {
    pub(super) oracle_id: SourceId,
    pub(super) view: Arc<SourceView>,
    /// The validated adapter, for a live source.
    pub(super) adapter: Option<Arc<Ready>>,
    /// Paths of the requested axes that the source provides.
    paths: Vec<String>,
    /// The question, which is the same for all sources, without any replies.
    pub(super) inputs: Arc<Inputs>,
    warnings: Vec<String>,
}

/// The result of a query.
pub(super) struct Answered {
    pub(super) call: Call,
    pub(super) keep: Option<Kept>,
    /// The source's earlier statement about the same subject, for an ingested source.
    pub(super) before: Option<Box<Candidate>>,
}

/// The source's reply, before it is checked.
pub(super) struct Said {
    pub(super) reply: Reply,
    /// The source's earlier statement about the same subject.
    pub(super) before: Option<Box<Candidate>>,
    pub(super) keep: Option<KeptAnswer>,
    pub(super) warnings: Vec<String>,
    pub(super) outcome: Outcome,
}

impl Errand {
    /// The source's tier, as registered.
    pub(super) fn tier(&self) -> OracleTier {
        self.view.state.entry.registration.oracle_tier
    }

    /// The call as of `asked_at`, without a reply.
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

    /// The answer to cache. It is not served again if it is too long, or if the adapter does not cache answers about this
    /// time.
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

    /// The freshness of a live source's answer, for each axis by its policy.
    fn freshness(
        &self,
        candidate: &Candidate,
        invalidation_count: u64,
        now: Timestamp,
    ) -> Vec<AxisFreshness> {
        let (state, question) = (&self.view.state, &self.inputs.question);
        let past = past_time(question.point_in_time, question.known_at, now);
        // the count is exact; if the source reports an age, that age is checked, too
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
    /// Builds the query to `oracle_id`. If the source cannot be queried, the error is the call to log instead.
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
            // the tier is unknown: treated as a missing trusted source
            unasked(OracleTier::Primary, Reply::Failed { failure: Failure::Internal, cause })
        };
        let view = self.store.view(oracle_id).map_err(|error| failed(error.to_string()))?;
        let view = view.ok_or_else(|| failed("the source is not registered".into()))?;
        let registration = &view.state.entry.registration;
        let tier = registration.oracle_tier;
        let not_asked = |cause: String| unasked(tier, Reply::NotAsked { cause });
        if registration.ontology != inputs.workflow.ontology {
            // the other sources cannot decide without this one: the workflow must be registered again
            let cause = format!("its ontology is now {}, which is not the workflow's", registration.ontology);
            return Err(unasked(tier, Reply::Failed { failure: Failure::Internal, cause }));
        }
        let paths = inputs.paths_for(&registration.axes_provided);
        if paths.is_empty() {
            return Err(not_asked("the source provides none of the axes".into()));
        }
        let cannot_be_asked = |cause: String| {
            let reply = Reply::Failed { failure: Failure::Internal, cause };
            Box::new(Call { axes: paths.clone(), ..*unasked(tier, reply) })
        };
        let warnings = match view.state.entry.standing(self.clock.now()) {
            Standing::Answers => Vec::new(),
            Standing::AnswersWithWarning(warning) => vec![warning],
            Standing::Silent(why) if view.state.entry.review_status == ReviewStatus::Pending => {
                // the workflow names the source, so it is not skipped while its approval is pending
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

    /// Queries a source until `limit`; `cut` is the cause of the limit. If the source is queried again, its cached answer
    /// is not used in place of a query.
    pub(super) async fn ask(&self, errand: Errand, limit: Duration, cut: Cut, is_again: bool) -> Answered {
        let (began, asked_at) = (stopwatch(), self.clock.now());
        let call = errand.unanswered(asked_at);
        if let Some(candidate) = self.still_fresh(&errand, asked_at).filter(|_| !is_again) {
            // no call is made, so no lease is needed
            let call = Call { ended_at: Some(asked_at), cache_hit: true, reply: bounded(candidate), ..call };
            return Answered { call, keep: None, before: None };
        }
        let lease = match self.lease(&errand.oracle_id).await {
            Ok(lease) => lease,
            Err(reply) => {
                // the source was not called
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

    /// The effect of a timeout on a source's health. If one workflow has only a short timeout, it does not count as a
    /// failure, as long as another workflow would still have accepted the answer as in time.
    fn outlasted(&self, oracle_id: &SourceId, latency_ms: u64) -> Outcome {
        let workflows = match self.store.all_registered::<Workflow>() {
            Ok(workflows) => workflows,
            Err(error) => {
                tracing::error!(%oracle_id, %error, "could not read the workflows; a timeout is not counted");
                return Outcome::Neutral;
            }
        };
        let ask_it = workflows.iter().filter(|known| known.document.oracles.contains(oracle_id));
        let soft_ms = ask_it.map(|known| known.document.oracle_latency.soft_timeout_ms).max();
        // a call may end a little before its timeout, because time is reserved for the decision
        let patience_ms = soft_ms.unwrap_or(0).min(PATIENCE_MAX_MS) * 9 / 10;
        if latency_ms < patience_ms {
            return Outcome::Neutral;
        }
        Outcome::Failure(format!("no answer within {latency_ms} ms"))
    }

    /// Queries the source.
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

    /// Tracks a source's health, if it is not tracked yet.
    pub(super) async fn watch(&self, oracle_id: &SourceId) -> Result<(), NoAnswer> {
        let oracle = Oracle { id: watched_as(oracle_id), config: self.config.health, probe: None };
        self.doors.oracle_health.ask(Watch(oracle)).await
    }

    /// Requests a lease to query a source. The error is the reply to log instead.
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

    /// A reply without an answer, with no effect on the source's health.
    const fn bare(reply: Reply) -> Self {
        Self { reply, before: None, keep: None, warnings: Vec::new(), outcome: Outcome::Neutral }
    }
}

/// The name under which a source's health is tracked; unique among the oracles.
pub(super) fn watched_as(oracle_id: &SourceId) -> OracleId {
    format!("source:{oracle_id}").parse().expect("a source id with this prefix is a valid oracle id")
}

/// The reply for an answer, or a refusal if the answer is too long.
pub(super) fn bounded(candidate: Candidate) -> Reply {
    if is_short(&candidate) {
        return Reply::Answered { candidate: Box::new(candidate) };
    }
    let cause = format!("the answer is longer than {CANDIDATE_MAX_BYTES} bytes");
    Reply::Refused { refusal: Refusal::Schema, cause }
}

fn is_short(candidate: &Candidate) -> bool {
    serde_json::to_vec(candidate).is_ok_and(|json| json.len() <= CANDIDATE_MAX_BYTES)
}
