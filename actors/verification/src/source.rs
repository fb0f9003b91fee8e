//! Querying sources: the store for an ingested source, the source itself for a live one, whose answers are cached. All
//! sources of a question are queried at the same time.

use super::VerificationContext;
use actors_ground::queries::{IngestedSourceAnswer, IngestedSourceQuestion, QueryError};
use actors_ground::registry::policy_of;
use actors_platform::actor_handle::ActorCallError;
use actors_platform::caller::run_as_current_caller;
use actors_platform::clock::stopwatch;
use actors_upstream::oracle_health::{
    AddMonitoredOracle, CallLease, MonitoredOracle, PermitError, RequestCallPermit,
};
use domain_base::moment::find_past_time;
use domain_ground::freshness::AxisFreshness;
use domain_ground::id::SourceId;
use domain_ground::source::{OracleTier, SourceAvailability, SourceReviewStatus};
use domain_ground::timeline::ReleaseScope;
use domain_upstream::failure::RequestFailureKind;
use domain_upstream::health::CircuitCallOutcome;
use domain_upstream::upstream_id::UpstreamId;
use domain_verification::adapter::ValidatedAdapter;
use domain_verification::workflow::Workflow;
use domain_verification::{
    AnswerFault, CachedAnswer, CachedAnswerKey, CallFailure, CallOutcome, CallTimeLimit, CandidateAnswer,
    DecisionInputs, Envelope, OracleCall, OracleReply,
};
use jiff::Timestamp;
use oracled_store::ground::view::SourceView;
use oracled_store::{RowExpectation, RowWrite, Store, StoreError};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

/// The longest answer that is used or cached, in bytes of JSON. The log stores it with the decision, and the
/// store caches it until it expires.
const CANDIDATE_MAX_BYTES: usize = 64 << 10;

/// A timeout after this number of milliseconds counts as a failure of the source, even if all workflows have
/// longer soft timeouts.
const FAILURE_TIMEOUT_MS: u64 = 1000;

/// The query to one source.
pub(super) struct SourceCallRequest {
    pub(super) oracle_id: SourceId,
    pub(super) view: Arc<SourceView>,
    /// The validated adapter, for a live source.
    pub(super) adapter: Option<Arc<ValidatedAdapter>>,
    /// Paths of the requested axes that the source provides.
    paths: Vec<String>,
    /// The question, which is the same for all sources, without any replies.
    pub(super) inputs: Arc<DecisionInputs>,
    warnings: Vec<String>,
}

/// The result of a query.
pub(super) struct SourceCallResult {
    pub(super) call: OracleCall,
    pub(super) answer_to_cache: Option<CacheableAnswer>,
    /// The source's earlier statement about the same subject, for an ingested source.
    pub(super) earlier_statement: Option<Box<CandidateAnswer>>,
}

/// The source's reply, before it is checked.
pub(super) struct UncheckedReply {
    pub(super) reply: OracleReply,
    /// The source's earlier statement about the same subject.
    pub(super) earlier_statement: Option<Box<CandidateAnswer>>,
    pub(super) answer_to_cache: Option<CachedAnswer>,
    pub(super) warnings: Vec<String>,
    pub(super) outcome: CircuitCallOutcome,
}

impl SourceCallRequest {
    /// The source's tier, as registered.
    pub(super) fn tier(&self) -> OracleTier {
        self.view.state.entry.registration.oracle_tier
    }

    /// The call as of `asked_at`, without a reply.
    fn unanswered_call(&self, asked_at: Timestamp) -> OracleCall {
        OracleCall {
            oracle_tier: self.tier(),
            axes: self.paths.clone(),
            asked_at: Some(asked_at),
            ended_at: None,
            latency_ms: 0,
            cache_hit: false,
            reply: OracleReply::NotAwaited,
            kept: None,
            warnings: self.warnings.clone(),
        }
    }

    pub(super) fn cached_answer_key(&self) -> CachedAnswerKey {
        let question = &self.inputs.question;
        CachedAnswerKey::of(&self.oracle_id, &question.subject, question.point_in_time)
    }

    /// The answer to cache. It is not served again if it is too long, or if the adapter does not cache
    /// answers about this time.
    fn cacheable_answer(&self, adapter: &ValidatedAdapter, answer: CachedAnswer) -> CacheableAnswer {
        let may_be_served = adapter.cache_seconds(self.inputs.question.point_in_time).is_some()
            && answer.candidate.as_ref().is_some_and(is_within_size_limit);
        let answer = CachedAnswer { invalidation_count: self.view.state.invalidation_count, ..answer };
        CacheableAnswer { key: self.cached_answer_key(), answer, may_be_served }
    }

    /// The answer to decide on: only the requested axes, with their freshness. `invalidation_count` is the number of
    /// invalidations when the source was asked.
    pub(super) fn prepare_candidate(
        &self,
        mut candidate: CandidateAnswer,
        invalidation_count: u64,
        now: Timestamp,
    ) -> CandidateAnswer {
        candidate.values.retain(|path, _| self.paths.contains(path));
        if self.adapter.is_some() {
            candidate.freshness = self.freshness(&candidate, invalidation_count, now);
        }
        candidate
    }

    /// The freshness of a live source's answer, for each axis by its policy.
    fn freshness(
        &self,
        candidate: &CandidateAnswer,
        invalidation_count: u64,
        now: Timestamp,
    ) -> Vec<AxisFreshness> {
        let (state, question) = (&self.view.state, &self.inputs.question);
        let past = find_past_time(question.point_in_time, question.known_at, now);
        // the count is exact; if the source reports an age, that age is checked, too
        let says_its_age = self.adapter.as_ref().is_some_and(|ready| ready.adapter().observed_at.is_some());
        let is_from_before = |at: &Timestamp| match past {
            None => {
                invalidation_count < state.invalidation_count || (says_its_age && candidate.observed_at < *at)
            }
            Some(_) => candidate.observed_at < *at,
        };
        let invalidated_at = state.invalidated_at(past, ReleaseScope::default()).filter(is_from_before);
        let paths: Vec<_> = self.paths.iter().map(String::as_str).collect();
        let policy = policy_of(state, &self.view.ontology);
        policy.evaluate(&paths, Some(candidate.observed_at), invalidated_at, past.unwrap_or(now)).axes
    }
}

impl VerificationContext {
    /// Builds the query to `oracle_id`. If the source cannot be queried, the error is the call to log instead.
    pub(super) fn prepare_source_call(
        &self,
        inputs: &Arc<DecisionInputs>,
        oracle_id: &SourceId,
    ) -> Result<SourceCallRequest, Box<OracleCall>> {
        let unasked = |oracle_tier, reply| {
            Box::new(OracleCall {
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
        let failed = |failure, cause: String| {
            // the tier is unknown: treated as a missing trusted source
            unasked(OracleTier::Primary, OracleReply::Failed { failure, cause })
        };
        let view = self.store.view(oracle_id);
        let view = view.map_err(|error| failed(CallFailure::Internal, error.to_string()))?;
        let unknown = || failed(CallFailure::NotReady, format!("source {oracle_id} is not registered"));
        let view = view.ok_or_else(unknown)?;
        let registration = &view.state.entry.registration;
        let tier = registration.oracle_tier;
        let not_asked = |cause: String| unasked(tier, OracleReply::NotAsked { cause });
        if registration.ontology != inputs.workflow.ontology {
            // the other sources cannot decide without this one: the workflow must be registered again
            let cause = format!(
                "the ontology of source {oracle_id} is now {}, which is not the workflow's",
                registration.ontology
            );
            return Err(unasked(tier, OracleReply::Failed { failure: CallFailure::NotReady, cause }));
        }
        let paths = inputs.paths_for(&registration.axes_provided);
        if paths.is_empty() {
            return Err(not_asked("the source provides none of the axes".into()));
        }
        let cannot_be_asked = |failure, cause: String| {
            let reply = OracleReply::Failed { failure, cause };
            Box::new(OracleCall { axes: paths.clone(), ..*unasked(tier, reply) })
        };
        let warnings = match view.state.entry.availability(self.clock.now()) {
            SourceAvailability::Answers => Vec::new(),
            SourceAvailability::AnswersWithWarning(warning) => vec![warning],
            SourceAvailability::Silent(why)
                if view.state.entry.review_status == SourceReviewStatus::Pending =>
            {
                // the workflow names the source, so it is not skipped while its approval is pending
                return Err(cannot_be_asked(CallFailure::NotReady, why));
            }
            SourceAvailability::Silent(why) => return Err(not_asked(why)),
        };
        let adapter = self.adapter(&view).map_err(|cause| cannot_be_asked(CallFailure::Internal, cause))?;
        if adapter.is_some() && inputs.question.known_at.is_some() {
            let cause = "a live source cannot be asked for what was known at an earlier time (`known_at`)";
            return Err(cannot_be_asked(CallFailure::Rejected, cause.into()));
        }
        let (oracle_id, inputs) = (oracle_id.clone(), Arc::clone(inputs));
        Ok(SourceCallRequest { oracle_id, view, adapter, paths, inputs, warnings })
    }

    /// Queries a source until `limit`; `cut` is the cause of the limit. If the source is queried again, its
    /// cached answer is not used in place of a query.
    async fn call_source(
        &self,
        request: SourceCallRequest,
        limit: Duration,
        cut: CallTimeLimit,
        is_again: bool,
    ) -> SourceCallResult {
        let (began, asked_at) = (stopwatch(), self.clock.now());
        let call = request.unanswered_call(asked_at);
        if let Some(candidate) = self.fresh_cached_candidate(&request, asked_at).filter(|_| !is_again) {
            // no call is made, so no lease is needed
            let call = OracleCall {
                ended_at: Some(asked_at),
                cache_hit: true,
                reply: limit_candidate_size(candidate),
                ..call
            };
            return SourceCallResult { call, answer_to_cache: None, earlier_statement: None };
        }
        let lease = match self.request_source_lease(&request.oracle_id).await {
            Ok(lease) => lease,
            Err(reply) => {
                // the source was not called
                let substitute = self.substitute_candidate(&request);
                return SourceCallResult {
                    call: OracleCall { asked_at: None, reply, kept: substitute, ..call },
                    answer_to_cache: None,
                    earlier_statement: None,
                };
            }
        };
        let unchecked = timeout_at(began + limit, self.query_source(&request)).await;
        let latency_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let unchecked =
            unchecked.unwrap_or_else(|_| UncheckedReply::without_answer(OracleReply::TimedOut { cut }));
        let UncheckedReply { reply, earlier_statement: before, answer_to_cache: keep, warnings, outcome } =
            unchecked;
        lease.report(match (&reply, outcome) {
            (OracleReply::TimedOut { .. }, _) => self.timeout_outcome(&request.oracle_id, latency_ms),
            (_, CircuitCallOutcome::Success { .. }) => {
                CircuitCallOutcome::Success { latency_ms: Some(latency_ms) }
            }
            (_, outcome) => outcome,
        });
        let now = self.clock.now();
        let keep = request
            .adapter
            .as_ref()
            .zip(keep)
            .map(|(adapter, answer)| request.cacheable_answer(adapter, answer));
        let reply = match reply {
            OracleReply::Answered { candidate } => limit_candidate_size(request.prepare_candidate(
                *candidate,
                request.view.state.invalidation_count,
                now,
            )),
            reply => reply,
        };
        let has_none = |reply: &OracleReply| {
            matches!(
                reply,
                OracleReply::Failed { .. } | OracleReply::Refused { .. } | OracleReply::TimedOut { .. }
            )
        };
        let substitute = if has_none(&reply) { self.substitute_candidate(&request) } else { None };
        let warnings = call.warnings.iter().cloned().chain(warnings).collect();
        let ended_at = (!matches!(reply, OracleReply::TimedOut { .. })).then_some(now);
        let call = OracleCall { ended_at, latency_ms, reply, kept: substitute, warnings, ..call };
        SourceCallResult { call, answer_to_cache: keep, earlier_statement: before }
    }

    /// The effect of a timeout on a source's health. If one workflow has only a short timeout, it does not count as a
    /// failure, as long as another workflow would still have accepted the answer as in time.
    fn timeout_outcome(&self, oracle_id: &SourceId, latency_ms: u64) -> CircuitCallOutcome {
        let workflows = match self.store.all_registered::<Workflow>() {
            Ok(workflows) => workflows,
            Err(error) => {
                tracing::error!(%oracle_id, %error, "could not read the workflows; a timeout is not counted");
                return CircuitCallOutcome::Neutral;
            }
        };
        let ask_it = workflows.iter().filter(|known| known.document.oracles.contains(oracle_id));
        let soft_ms = ask_it.map(|known| known.document.oracle_latency.soft_timeout_ms).max();
        // a call may end a little before its timeout, because time is reserved for the decision
        let patience_ms = soft_ms.unwrap_or(0).min(FAILURE_TIMEOUT_MS) * 9 / 10;
        if latency_ms < patience_ms {
            return CircuitCallOutcome::Neutral;
        }
        CircuitCallOutcome::Failure(RequestFailureKind::Timeout)
    }

    async fn query_source(&self, request: &SourceCallRequest) -> UncheckedReply {
        match &request.adapter {
            Some(adapter) => self.query_live_source(request, adapter).await,
            None => self.query_ingested_source(request).await,
        }
    }

    async fn query_ingested_source(&self, request: &SourceCallRequest) -> UncheckedReply {
        let DecisionInputs { question, workflow, .. } = &*request.inputs;
        let source_question = IngestedSourceQuestion {
            oracle_id: request.oracle_id.clone(),
            identity: question.subject.clone(),
            paths: request.paths.clone(),
            point_in_time: question.point_in_time,
            known_at: question.known_at,
            with_previous: !workflow.deviation_limits.is_empty(),
        };
        match self.handles.queries.answer_question(source_question).await {
            Ok(IngestedSourceAnswer { reply, previous: before, warnings }) => {
                let outcome = CircuitCallOutcome::Success { latency_ms: None };
                UncheckedReply { reply, earlier_statement: before, answer_to_cache: None, warnings, outcome }
            }
            Err(error) => {
                let cause = error.to_string();
                let outcome = match &error {
                    QueryError::Store(_) | QueryError::Reading(_) => {
                        CircuitCallOutcome::Failure(RequestFailureKind::Unusable("facts"))
                    }
                    _ => CircuitCallOutcome::Neutral,
                };
                UncheckedReply { outcome, ..UncheckedReply::failed(cause) }
            }
        }
    }

    /// Tracks a source's health, if it is not tracked yet.
    pub(super) async fn monitor_source(&self, oracle_id: &SourceId) -> Result<(), ActorCallError> {
        let oracle =
            MonitoredOracle { id: health_oracle_id(oracle_id), config: self.config.health, probe: None };
        self.handles.oracle_health.ask(AddMonitoredOracle(oracle)).await
    }

    /// Requests a lease to query a source. The error is the reply to log instead.
    async fn request_source_lease(&self, oracle_id: &SourceId) -> Result<CallLease, OracleReply> {
        let id = health_oracle_id(oracle_id);
        let failed = |cause: String| OracleReply::Failed { failure: CallFailure::Internal, cause };
        let health = &self.handles.oracle_health;
        let mut permit =
            health.ask(RequestCallPermit(id.clone())).await.map_err(|error| failed(error.to_string()))?;
        if let Err(PermitError::Unknown(_)) = permit {
            self.monitor_source(oracle_id).await.map_err(|error| failed(error.to_string()))?;
            permit = health.ask(RequestCallPermit(id)).await.map_err(|error| failed(error.to_string()))?;
        }
        permit.map_err(|error| match error {
            PermitError::CircuitOpen { retry_after, .. } => {
                let ms = |wait: Duration| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
                OracleReply::CircuitOpen { retry_after_ms: retry_after.map(ms) }
            }
            error @ (PermitError::Unknown(_)
            | PermitError::RequestedWait { .. }
            | PermitError::Refusing { .. }) => failed(error.to_string()),
        })
    }
}

impl UncheckedReply {
    pub(super) fn failed(cause: String) -> Self {
        Self::without_answer(OracleReply::Failed { failure: CallFailure::Internal, cause })
    }

    /// A reply without an answer, with no effect on the source's health.
    const fn without_answer(reply: OracleReply) -> Self {
        Self {
            reply,
            earlier_statement: None,
            answer_to_cache: None,
            warnings: Vec::new(),
            outcome: CircuitCallOutcome::Neutral,
        }
    }
}

/// The name under which a source's health is tracked; unique among the oracles.
pub fn health_oracle_id(oracle_id: &SourceId) -> UpstreamId {
    format!("source:{oracle_id}").parse().expect("a source id with this prefix is a valid oracle id")
}

/// The reply for an answer, or a refusal if the answer is too long.
pub(super) fn limit_candidate_size(candidate: CandidateAnswer) -> OracleReply {
    if is_within_size_limit(&candidate) {
        return OracleReply::Answered { candidate: Box::new(candidate) };
    }
    let cause = format!("the answer is longer than {CANDIDATE_MAX_BYTES} bytes");
    OracleReply::Refused { refusal: AnswerFault::Schema, cause }
}

fn is_within_size_limit(candidate: &CandidateAnswer) -> bool {
    serde_json::to_vec(candidate).is_ok_and(|json| json.len() <= CANDIDATE_MAX_BYTES)
}

/// An answer of a live source to cache, or only its issue time.
pub(super) struct CacheableAnswer {
    pub(super) key: CachedAnswerKey,
    pub(super) answer: CachedAnswer,
    /// Whether the answer may be served again. If not, only its issue time is stored.
    may_be_served: bool,
}

impl CacheableAnswer {
    /// Whether the decision accepted the answer.
    pub(super) fn is_accepted_in(&self, envelope: &Envelope) -> bool {
        let outcome = envelope.candidates.iter().find(|outcome| outcome.oracle_id == self.key.oracle_id);
        outcome.is_some_and(|outcome| outcome.outcome == CallOutcome::Answered && !outcome.stale)
    }

    /// Returns the write that caches the answer. `None` if the cached answer is newer: decisions about one
    /// subject may overtake each other, and a source may repeat an old answer. An answer that must not be
    /// served also replaces an older one that could be served. But if the answer `is_doubted`, because it
    /// deviates from the baseline, it does not replace the cached one.
    pub(super) fn cache_write(
        &self,
        store: &Store,
        is_doubted: bool,
    ) -> Result<Option<(RowExpectation, RowWrite)>, StoreError> {
        let known = store.cached_answer(&self.key)?;
        let revision = known.as_ref().map(|(_, revision)| *revision);
        let (mut answer, mut may_be_served) = (self.answer.clone(), self.may_be_served && !is_doubted);
        let as_of = |answer: &CachedAnswer| {
            (answer.issued_at, answer.candidate.as_ref().map(|candidate| candidate.observed_at))
        };
        if let Some((known, _)) = known {
            let is_comparable =
                known.adapter_sha256 == answer.adapter_sha256 && known.point_in_time == answer.point_in_time;
            if is_comparable && as_of(&known) > as_of(&answer) {
                return Ok(None);
            }
            answer.issued_at = answer.issued_at.max(known.issued_at);
            if is_comparable && is_doubted {
                may_be_served = known.candidate.is_some();
                answer = CachedAnswer { issued_at: answer.issued_at, ..known };
            }
        } else if !may_be_served && answer.issued_at.is_none() {
            return Ok(None);
        }
        if !may_be_served {
            answer = answer.without_candidate();
        }
        let expect = RowExpectation::new::<CachedAnswer>(&self.key, revision);
        Ok(Some((expect, RowWrite::put_at(&self.key, &answer))))
    }
}

/// The results of the queries that are not part of the decision's inputs.
#[derive(Default)]
pub(super) struct SourceCallExtras {
    pub(super) answers_to_cache: Vec<CacheableAnswer>,
    /// The earlier statements of sources about the same subject, for ingested sources.
    pub(super) earlier_statements: BTreeMap<SourceId, CandidateAnswer>,
}

impl VerificationContext {
    /// Queries `oracles` at the same time, and stores their replies in `inputs`. Each query ends at the hard
    /// timeout, and all of them at `deadline`. `put_at` is the time of the question. An untrusted source is
    /// awaited only until all others have answered and the soft timeout has passed.
    pub(super) async fn call_sources(
        self: &Arc<Self>,
        inputs: &mut DecisionInputs,
        oracles: &BTreeSet<SourceId>,
        put_at: Timestamp,
        deadline: Option<Instant>,
    ) -> SourceCallExtras {
        let began = stopwatch();
        let left = deadline.map(|deadline| deadline.saturating_duration_since(began));
        let hard = Duration::from_millis(inputs.workflow.oracle_latency.hard_timeout_ms);
        let (limit, cut) = match left.filter(|left| *left < hard) {
            Some(left) => (left, CallTimeLimit::Budget),
            None => (hard, CallTimeLimit::HardTimeout),
        };
        let calls = std::mem::take(&mut inputs.calls);
        let question_inputs = Arc::new(DecisionInputs { asked_at: put_at, ..inputs.clone() });
        inputs.calls = calls;
        let mut on_their_way = JoinSet::new();
        let mut waited_for = BTreeSet::new();
        let mut begun = BTreeMap::new();
        for oracle_id in
            question_inputs.workflow.oracles.iter().filter(|oracle_id| oracles.contains(oracle_id)).cloned()
        {
            match self.prepare_source_call(&question_inputs, &oracle_id) {
                Err(call) => drop(inputs.calls.insert(oracle_id, *call)),
                Ok(request) => {
                    if request.tier() != OracleTier::Unverified {
                        waited_for.insert(oracle_id.clone());
                    }
                    // the call to log if the query does not end in time
                    begun.insert(oracle_id.clone(), request.unanswered_call(self.clock.now()));
                    let (verifier, is_again) = (Arc::clone(self), inputs.calls.contains_key(&oracle_id));
                    on_their_way.spawn(run_as_current_caller(async move {
                        let answered = verifier.call_source(request, limit, cut, is_again).await;
                        (oracle_id, answered)
                    }));
                }
            }
        }
        let nobody_is_trusted = waited_for.is_empty();
        let soft = Duration::from_millis(inputs.workflow.oracle_latency.soft_timeout_ms).min(limit);
        let mut extras = SourceCallExtras::default();
        loop {
            let next = on_their_way.join_next();
            let ended = if nobody_is_trusted || !waited_for.is_empty() {
                next.await
            } else {
                timeout_at(began + soft, next).await.ok().flatten()
            };
            let Some(ended) = ended else { break };
            let Ok((oracle_id, SourceCallResult { call, answer_to_cache: keep, earlier_statement: before })) =
                ended
            else {
                continue;
            };
            waited_for.remove(&oracle_id);
            begun.remove(&oracle_id);
            extras.answers_to_cache.extend(keep);
            extras.earlier_statements.extend(before.map(|before| (oracle_id.clone(), *before)));
            inputs.calls.insert(oracle_id, call);
        }
        let latency_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        for (oracle_id, call) in begun {
            let reply = if waited_for.contains(&oracle_id) {
                // the task ended without an answer
                OracleReply::Failed {
                    failure: CallFailure::Internal,
                    cause: "the query failed unexpectedly".into(),
                }
            } else {
                OracleReply::NotAwaited
            };
            inputs.calls.insert(oracle_id, OracleCall { latency_ms, reply, ..call });
        }
        extras
    }
}
