//! One generation: limits, model call, gate.

use super::{ConfiguredModel, ConfiguredModels};
use crate::cache::VerdictCache;
use crate::crosscheck::{CrosscheckActor, JudgeVerdict};
use crate::generation::{GenerationError, PromptError, find_prompt, find_prompt_template};
use crate::rate_limiter::{
    CallLimitError, ModelCallSlot, RateLimiter, RegenPermit, RequestCallRetry, RequestFirstCall,
};
use crate::submission::{GenerationTrace, Submission, SubmissionOutcome};
use actors_audit::logger::{CommitError, LoggerHandle};
use actors_platform::actor_handle::ActorHandle;
use actors_platform::clock::{Clock, monotonic};
use actors_platform::metrics::{AddMetric, ApplicationLabelValue, MetricLabelValue, init_counters, pairs};
use actors_platform::per_application::PerApplication;
use actors_upstream::oracle_health::{
    ApplyRequestedWait, CallLease, ListHealthStatuses, OracleHealth, PermitError, RequestCallPermit,
    RequestFirstPermit,
};
use actors_upstream::{ModelCallPurpose, ModelCallResult, ModelCaller, ModelError, ModelHealthEffect};
use domain_base::event::AuditEvent;
use domain_base::gate_path::GatePath;
use domain_base::payload::VerdictPayload;
use domain_base::series::{MetricSeries, SeriesMeasure, SeriesUnit};
use domain_base::session_id::{ApplicationName, SessionId};
use domain_upstream::event::{InteractionStatus, PERMANENT_STATUSES};
use domain_upstream::health::{CircuitCallOutcome, OracleHealthLevel};
use domain_upstream::upstream_id::UpstreamId;
use domain_verdict::cost::ModelCost;
use domain_verdict::event::OracleInteraction;
use domain_verdict::generation::{GenerationOutcome, GenerationSettings, ModelTokenUsage, VerdictGeneration};
use domain_verdict::label::ProductTier;
use domain_verdict::order::{Order, OrderAttemptStart};
use domain_verdict::prompt::{ModelPrompt, TemplateName, build_prompt_after_rejection};
use domain_verdict::query::CustomerQuery;
use domain_verdict::rejection::{AnswerRejection, RejectedClaim};
use jiff::SignedDuration;
use oracled_store::Store;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use strum::VariantArray;

/// When to retry if an administrator holds the circuit open, or the model reports no wait.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// The actors that a generation calls.
#[derive(Debug, Clone)]
pub struct GenerationHandles {
    pub rate_limiter: ActorHandle<RateLimiter>,
    pub oracle_health: ActorHandle<OracleHealth>,
    pub crosscheck: ActorHandle<CrosscheckActor>,
    pub cache: ActorHandle<VerdictCache>,
    pub log: LoggerHandle,
}

/// Runs generations, which share its parts.
#[derive(Debug)]
pub struct GenerationRunner {
    pub models: ConfiguredModels,
    /// The configured template of prompts.
    pub prompt_templates: PerApplication<TemplateName>,
    pub handles: GenerationHandles,
    pub store: Store,
    pub clock: Clock,
    pub metrics: GenerationMetrics,
}

/// The permits of one call of the model for a first verdict.
#[derive(Debug)]
pub struct FirstCallPermits {
    model: Arc<ConfiguredModel>,
    /// The settings for this call.
    settings: GenerationSettings,
    lease: CallLease,
    slot: ModelCallSlot,
    /// The part of the model's time limit that has passed.
    spent: Duration,
}

/// Why no model may be called for a first verdict now.
#[derive(Debug)]
pub enum FirstCallDenial {
    /// No order of the application can be attempted.
    Application(GenerationError),
    /// This order cannot be attempted before `wait` is over. The error is missing if only earlier failures of its own are the
    /// cause.
    Order { error: Option<GenerationError>, wait: Duration },
    /// The order is at its last attempt, and the model may not be called, which no wait changes. The model and the error are
    /// missing if all models had their last attempt.
    Final(Option<(Arc<ConfiguredModel>, GenerationError)>),
}

/// The error of the model that may be called soonest.
#[derive(Debug, Default)]
struct SoonestDenial(Option<(Duration, GenerationError)>);

impl SoonestDenial {
    /// Adds the error of a model. An error that concerns all models is returned.
    fn add(&mut self, error: GenerationError) -> Result<(), GenerationError> {
        let wait = match &error {
            GenerationError::NotPermitted { retry_after, .. } => *retry_after,
            GenerationError::Limited(
                limit @ (CallLimitError::Places { .. } | CallLimitError::Budget { .. }),
            ) => limit.wait(),
            _ => return Err(error),
        };
        if self.0.as_ref().is_none_or(|(soonest, _)| wait < *soonest) {
            self.0 = Some((wait, error));
        }
        Ok(())
    }
}

impl FirstCallPermits {
    /// The beginning of the attempt with the prompt.
    pub(crate) fn start(&self, prompt: &ModelPrompt, is_last: bool) -> OrderAttemptStart {
        let generation = VerdictGeneration::new(prompt, self.settings.clone());
        let time_limit =
            SignedDuration::try_from(self.model.caller.deadline()).unwrap_or(SignedDuration::MAX);
        OrderAttemptStart { oracle_id: self.model.oracle_id().clone(), generation, is_last, time_limit }
    }

    /// The same after this much of the model's time limit.
    pub(crate) fn with_time_spent(self, spent: Duration) -> Self {
        Self { spent, ..self }
    }

    /// The same for a call with another temperature, if one is given.
    pub(crate) fn with_temperature(self, temperature: Option<f64>) -> Self {
        let settings = temperature.map(|temperature| self.settings.with_temperature(temperature));
        Self { settings: settings.unwrap_or(self.settings), ..self }
    }
}

/// The end of one generation.
#[derive(Debug)]
pub struct GenerationEnd {
    pub(crate) result: Result<SubmissionOutcome, GenerationError>,
    /// The tokens used, with retries.
    pub(crate) usage: Option<ModelTokenUsage>,
    pub(crate) cost: Option<ModelCost>,
}

impl GenerationEnd {
    pub(crate) fn outcome(&self) -> GenerationOutcome {
        outcome_of(&self.result)
    }
}

fn outcome_of(result: &Result<SubmissionOutcome, GenerationError>) -> GenerationOutcome {
    result.as_ref().map_or_else(GenerationError::generation_outcome, SubmissionOutcome::generation_outcome)
}

/// A request to a model.
#[derive(Debug)]
pub(super) struct ModelRequest {
    pub(super) prompt: ModelPrompt,
    pub(super) settings: GenerationSettings,
}

/// A verdict to generate: the submission and the request to the model.
pub(super) struct GenerationJob {
    pub(super) submission: Submission,
    pub(super) request: ModelRequest,
}

pub(super) struct ModelCallPermits {
    pub(super) lease: CallLease,
    /// The slot among the calls in flight, held until the flight ends.
    pub(super) slot: ModelCallSlot,
    /// The part of the model's time limit that has passed.
    pub(super) spent: Duration,
    /// The committed attempt, for a regeneration.
    pub(super) regen_permit: Option<RegenPermit>,
}

impl GenerationRunner {
    /// Generates the first verdict of an order.
    pub(crate) async fn generate(
        &self,
        submission: Submission,
        prompt: ModelPrompt,
        permits: FirstCallPermits,
    ) -> GenerationEnd {
        let FirstCallPermits { model, settings, lease, slot, spent } = permits;
        let application = submission.session_id.application();
        let request = ModelRequest { prompt, settings };
        let job = GenerationJob { submission, request };
        let permits = ModelCallPermits { lease, slot, spent, regen_permit: None };
        let end = self.call_and_judge(&model, job, permits).await;
        self.count_outcome(application, GatePath::Generate, &end.result);
        end
    }

    /// The permits of a call for a first verdict by the first one of `models` that may be called now. `order` is not asked of
    /// models that failed for it a short time ago.
    pub(crate) async fn request_first_call(
        &self,
        models: &[Arc<ConfiguredModel>],
        application: &ApplicationName,
        order: Option<&Order>,
    ) -> Result<FirstCallPermits, FirstCallDenial> {
        let now = order.map_or_else(|| self.clock.now(), |order| self.clock.now_since(order.changed_at));
        let (mut soonest, mut own_wait) = (SoonestDenial::default(), None);
        for model in models {
            if let Some(until) = order.and_then(|order| order.paused_until(model.oracle_id(), now)) {
                let wait = until.duration_since(now).unsigned_abs();
                own_wait = Some(own_wait.map_or(wait, |own: Duration| own.min(wait)));
                continue;
            }
            match self.request_permits(model, application, false).await {
                Ok(permits) => return Ok(permits),
                Err(error) => soonest.add(error).map_err(FirstCallDenial::Application)?,
            }
        }
        Err(match (soonest.0, own_wait) {
            (denied, Some(own)) => {
                let wait = denied.as_ref().map_or(own, |(wait, _)| own.min(*wait));
                FirstCallDenial::Order { error: denied.map(|(_, error)| error), wait }
            }
            (Some((_, error)), None) => FirstCallDenial::Application(error),
            (None, None) => FirstCallDenial::Application(GenerationError::NoModel),
        })
    }

    /// The permits of the last attempt of `order` with one of `models` that had none. A model that may be called anyway comes
    /// first. If there is none, the attempt overrides requested waits and open circuits, but no limit of calls. The order waits
    /// while a call of a model that rejected the caller is in progress.
    pub(crate) async fn request_last_call(
        &self,
        models: &[Arc<ConfiguredModel>],
        application: &ApplicationName,
        order: &Order,
    ) -> Result<FirstCallPermits, FirstCallDenial> {
        let left: Vec<_> =
            models.iter().filter(|model| !order.last_asked.contains(model.oracle_id())).collect();
        let mut limited = SoonestDenial::default();
        for is_last in [false, true] {
            let mut denied = None;
            for model in &left {
                match self.request_permits(model, application, is_last).await {
                    Ok(permits) => return Ok(permits),
                    Err(error @ GenerationError::NotPermitted { .. }) => {
                        if denied.is_none() || is_being_tried(&error) {
                            denied = Some((Arc::clone(model), error));
                        }
                    }
                    Err(error) => limited.add(error).map_err(FirstCallDenial::Application)?,
                }
            }
            if let Some((_, error)) = limited.0.take() {
                return Err(FirstCallDenial::Application(error));
            }
            if is_last {
                return Err(match denied {
                    Some((_, error @ GenerationError::NotPermitted { retry_after: wait, .. }))
                        if is_being_tried(&error) =>
                    {
                        FirstCallDenial::Order { error: Some(error), wait }
                    }
                    denied => FirstCallDenial::Final(denied),
                });
            }
        }
        Err(FirstCallDenial::Final(None))
    }

    /// The permits of a call of `model` for a first verdict.
    async fn request_permits(
        &self,
        model: &Arc<ConfiguredModel>,
        application: &ApplicationName,
        is_last: bool,
    ) -> Result<FirstCallPermits, GenerationError> {
        let lease = self.request_first_lease_of(model, is_last).await?;
        let call =
            RequestFirstCall { oracle_id: model.oracle_id().clone(), application: application.clone() };
        let slot = self.handles.rate_limiter.ask(call).await??;
        Ok(FirstCallPermits {
            settings: model.original.clone(),
            model: Arc::clone(model),
            lease,
            slot,
            spent: Duration::ZERO,
        })
    }

    /// Checks that a model is configured.
    pub(crate) fn require_model(&self) -> Result<(), GenerationError> {
        self.models.first().map(drop).ok_or(GenerationError::NoModel)
    }

    /// The prompt for a first verdict, by the template of the application.
    pub(crate) fn first_prompt(
        &self,
        application: &ApplicationName,
        tier: ProductTier,
        query: &CustomerQuery,
    ) -> Result<ModelPrompt, GenerationError> {
        Ok(find_prompt(&self.store, self.prompt_templates.of(application), tier, query)?)
    }

    /// The prompt for another verdict of an order after a rejected answer.
    pub(crate) fn prompt_after(
        &self,
        application: &ApplicationName,
        (tier, query): (ProductTier, &CustomerQuery),
        rejection: &AnswerRejection,
        claims: &[RejectedClaim],
    ) -> Result<ModelPrompt, GenerationError> {
        let template = find_prompt_template(&self.store, self.prompt_templates.of(application))?;
        let prompt = build_prompt_after_rejection(&template, tier, query, rejection, claims);
        Ok(prompt.map_err(PromptError::from)?)
    }

    /// Whether the template of the application has a place for the rejection of an answer.
    pub(crate) fn has_rejection(&self, application: &ApplicationName, tier: ProductTier) -> bool {
        let template = find_prompt_template(&self.store, self.prompt_templates.of(application));
        template.is_ok_and(|template| template.has_rejection(tier))
    }

    pub(super) fn count_outcome(
        &self,
        application: ApplicationName,
        path: GatePath,
        result: &Result<SubmissionOutcome, GenerationError>,
    ) {
        self.metrics.count_outcome(application, path, outcome_of(result));
    }

    pub(super) async fn request_lease(&self, model: &ConfiguredModel) -> Result<CallLease, GenerationError> {
        self.check_log()?;
        not_permitted(self.handles.oracle_health.ask(RequestCallPermit(model.oracle_id().clone())).await?)
    }

    pub(super) async fn request_first_lease_of(
        &self,
        model: &ConfiguredModel,
        is_last: bool,
    ) -> Result<CallLease, GenerationError> {
        self.check_log()?;
        let request = RequestFirstPermit { oracle_id: model.oracle_id().clone(), is_last };
        not_permitted(self.handles.oracle_health.ask(request).await?)
    }

    /// Checks that the log takes entries: a verdict that could not be delivered must not cost a model call.
    fn check_log(&self) -> Result<(), GenerationError> {
        match self.handles.log.report().borrow().new_work_rejection() {
            Some((cause, _)) => Err(CommitError::Unavailable(cause.clone()).into()),
            None => Ok(()),
        }
    }

    /// Whether the circuit has not opened since it permitted the call. A model that rejects the caller is still called for
    /// regenerations.
    async fn is_circuit_closed(&self, oracle_id: &UpstreamId, path: GatePath) -> bool {
        let statuses = self.handles.oracle_health.ask(ListHealthStatuses).await.unwrap_or_default();
        let accepts = |status: OracleHealthLevel| {
            status.accepts_calls() || (path == GatePath::Regen && status == OracleHealthLevel::Refusing)
        };
        statuses.iter().any(|health| health.oracle_id == *oracle_id && accepts(health.status))
    }

    /// Calls the model and sends its answer to the gate.
    pub(super) async fn call_and_judge(
        &self,
        model: &ConfiguredModel,
        mut job: GenerationJob,
        leave: ModelCallPermits,
    ) -> GenerationEnd {
        let ModelCallPermits { mut lease, mut slot, spent, regen_permit } = leave;
        // the original may be of a model of another name at the same provider
        let mut is_own_name = job.request.settings.model == model.original.model;
        let began = monotonic();
        let Submission { session_id, path, .. } = &job.submission;
        let application = session_id.application();
        let purpose = ModelCallPurpose { session_id: Some(session_id.clone()), path: *path };
        let caller = model.caller.with_time_spent(spent);
        let mut called = self.call_model(model, &caller, &purpose, &job.request).await;
        // the refusal of a call in place of one to a model that is gone
        let mut refused = None;
        if purpose.path == GatePath::Regen
            && let Err(error) = &called.outcome
            && let Some(first) = self.models.substitute(&application, &job.request.settings, error)
        {
            match self.request_substitute(model, first, &purpose, &application).await {
                Ok(permits) => {
                    let gone = std::mem::replace(&mut job.request.settings, first.regen_settings(None)).model;
                    tracing::warn!(
                        gone,
                        instead = job.request.settings.model,
                        "the first model is gone; calling the configured model"
                    );
                    if let Some((other, other_slot)) = permits {
                        let before = std::mem::replace(&mut lease, other);
                        before.report_for(purpose.session_id.clone(), health_outcome(&called, is_own_name));
                        slot = other_slot;
                    }
                    is_own_name = true;
                    let gone = std::mem::take(&mut called.interactions);
                    let caller = first.caller.with_time_spent(spent + began.elapsed());
                    called = self.call_model(first, &caller, &purpose, &job.request).await;
                    called.interactions.splice(0..0, gone);
                    called.reached = true;
                }
                Err(error) => refused = Some(error),
            }
        }
        if refused.is_none() {
            self.count_refused_request(&called);
        }
        self.report_call(lease, &purpose, &called, is_own_name);
        let ModelCallResult { outcome, interactions, reached, .. } = called;
        let usage = ModelTokenUsage::sum(interactions.iter().filter_map(OracleInteraction::usage_of));
        let costs = interactions.iter().filter_map(OracleInteraction::cost_of);
        let cost = ModelCost::sum(costs.map(|sum| sum.cost));
        let result = match outcome {
            Ok(answer) => self.judge_text(job, answer.text, interactions).await,
            Err(error) => {
                // only the model that is gone was reached: the attempt does not count
                let unreached = regen_permit.filter(|_| !reached || refused.is_some());
                let wait = self.log_failed_call(&job, interactions, unreached).await;
                let retry_after = match &error {
                    ModelError::Unavailable { retry_after, .. } => {
                        Some(wait.unwrap_or_default().max(retry_after.unwrap_or(RETRY_AFTER)))
                    }
                    ModelError::Timeout { .. } | ModelError::UnreadableAnswer { .. } => {
                        Some(wait.unwrap_or_default().max(RETRY_AFTER))
                    }
                    ModelError::Refused { .. } => wait,
                    ModelError::RefusedRequest { .. } => None,
                };
                Err(refused.unwrap_or(GenerationError::Model { error, retry_after }))
            }
        };
        drop(slot);
        GenerationEnd { result, usage, cost }
    }

    /// The permits of a second call, which is of the model `first`; `None` if that is the model of the first call, whose permits
    /// are for both.
    async fn request_substitute(
        &self,
        model: &ConfiguredModel,
        first: &ConfiguredModel,
        purpose: &ModelCallPurpose,
        application: &ApplicationName,
    ) -> Result<Option<(CallLease, ModelCallSlot)>, GenerationError> {
        if model.oracle_id() != first.oracle_id() {
            let lease = self.request_lease(first).await?;
            let (oracle_id, application) = (first.oracle_id().clone(), application.clone());
            let call = RequestFirstCall { oracle_id, application };
            return Ok(Some((lease, self.handles.rate_limiter.ask(call).await??)));
        }
        self.check_retry(first, purpose).await.map(|()| None)
    }

    /// Counts the attempts of a finished call, and reports its effect on the model's health. `is_own_name` is whether the
    /// configured model was called, and not another one of its provider.
    pub(super) fn report_call(
        &self,
        lease: CallLease,
        purpose: &ModelCallPurpose,
        called: &ModelCallResult,
        is_own_name: bool,
    ) {
        self.metrics.count_attempts(&called.interactions);
        lease.report_for(purpose.session_id.clone(), health_outcome(called, is_own_name));
    }

    /// Counts a call that the model refused permanently.
    pub(super) fn count_refused_request(&self, called: &ModelCallResult) {
        if let Err(ModelError::RefusedRequest { status, .. }) = &called.outcome {
            self.metrics.count_refused_request(*status);
        }
    }

    pub(super) async fn call_model(
        &self,
        model: &ConfiguredModel,
        caller: &ModelCaller,
        purpose: &ModelCallPurpose,
        request: &ModelRequest,
    ) -> ModelCallResult {
        let on_requested_wait = async |wait| {
            let requested_wait = ApplyRequestedWait { oracle_id: model.oracle_id().clone(), wait };
            if let Err(error) = self.handles.oracle_health.ask(requested_wait).await {
                tracing::warn!(%error, "could not store the wait that the model requested");
            }
        };
        let may_retry = async || self.check_retry(model, purpose).await.is_ok();
        caller.call(purpose, &request.prompt, &request.settings, on_requested_wait, may_retry).await
    }

    /// Checks that an attempt may be retried: the model's circuit is closed, and the budget of calls is not used up.
    async fn check_retry(
        &self,
        model: &ConfiguredModel,
        purpose: &ModelCallPurpose,
    ) -> Result<(), GenerationError> {
        let oracle_id = model.oracle_id().clone();
        if !self.is_circuit_closed(&oracle_id, purpose.path).await {
            let error = PermitError::CircuitOpen { oracle_id, retry_after: None };
            return Err(GenerationError::NotPermitted { error, retry_after: RETRY_AFTER });
        }
        let application = purpose.session_id.as_ref().map(SessionId::application);
        let retry = RequestCallRetry { oracle_id, application };
        Ok(self.handles.rate_limiter.ask(retry).await??)
    }

    /// Logs a call without an answer that can be judged, and undoes the attempt if it did not reach the
    /// model. Returns how long the session has to wait.
    async fn log_failed_call(
        &self,
        job: &GenerationJob,
        interactions: Vec<AuditEvent>,
        unreached: Option<RegenPermit>,
    ) -> Option<Duration> {
        let generation_trace = GenerationTrace { generation: job.request.generation(), interactions };
        let mut record = GenerationTrace::record(Some(&generation_trace), None);
        if let Some(regen_permit) = unreached {
            regen_permit.remove_attempt(&mut record);
        }
        // an entry that cannot be committed goes to the service log; there is no verdict in either case
        if let Err(error) = self.handles.log.commit(record).await {
            tracing::warn!(%error, "could not log a model call");
        }
        self.regen_wait_for_path(job.submission.path, &job.submission.session_id)
    }

    /// The time until the session's next regeneration; `None` unless `path` is a regeneration.
    fn regen_wait_for_path(&self, path: GatePath, session_id: &SessionId) -> Option<Duration> {
        (path == GatePath::Regen).then(|| self.regen_wait(session_id)).flatten()
    }

    async fn judge_text(
        &self,
        job: GenerationJob,
        text: String,
        interactions: Vec<AuditEvent>,
    ) -> Result<SubmissionOutcome, GenerationError> {
        let generation_trace = Some(GenerationTrace { generation: job.request.generation(), interactions });
        let submission = Submission {
            payload: Some(VerdictPayload::raw(&text)),
            generation_trace: generation_trace.clone(),
            ..job.submission
        };
        let (path, session_id) = (submission.path, submission.session_id.clone());
        match self.handles.crosscheck.ask(JudgeVerdict(submission)).await {
            Ok(outcome) => Ok(outcome?.with_retry_after(self.regen_wait_for_path(path, &session_id))),
            Err(error) => {
                // the gate would have logged the call
                self.handles.log.commit(GenerationTrace::record(generation_trace.as_ref(), None)).await?;
                Err(error.into())
            }
        }
    }
}

impl ModelRequest {
    pub(super) fn generation(&self) -> VerdictGeneration {
        VerdictGeneration::new(&self.prompt, self.settings.clone())
    }
}

/// The effect of a call on the model's health. The rejection of another name does not affect the configured model.
const fn health_outcome(called: &ModelCallResult, is_own_name: bool) -> CircuitCallOutcome {
    match (called.health, called.failure_kind) {
        (ModelHealthEffect::Answered, _) => {
            CircuitCallOutcome::Success { latency_ms: Some(called.latency_ms) }
        }
        (ModelHealthEffect::Refused, Some(kind)) if is_own_name => CircuitCallOutcome::Refusal(kind),
        (ModelHealthEffect::Failed, Some(kind)) => CircuitCallOutcome::Failure(kind),
        _ => CircuitCallOutcome::Neutral,
    }
}

/// Whether a call in progress shows soon whether the model may be called.
const fn is_being_tried(error: &GenerationError) -> bool {
    matches!(
        error,
        GenerationError::NotPermitted { error: PermitError::Refusing { is_being_tried: true, .. }, .. }
    )
}

fn not_permitted(permit: Result<CallLease, PermitError>) -> Result<CallLease, GenerationError> {
    permit.map_err(|error| {
        let retry_after = error.retry_after().unwrap_or(RETRY_AFTER);
        GenerationError::NotPermitted { error, retry_after }
    })
}

/// The paths on which the model is called for a verdict of a session.
const PATHS: [GatePath; 2] = [GatePath::Generate, GatePath::Regen];
/// The paths on which the model is called.
const CALL_PATHS: [GatePath; 3] = [GatePath::Generate, GatePath::Regen, GatePath::Try];
/// The kinds of the model's tokens.
const DIRECTIONS: [&str; 2] = ["prompt", "output"];

/// The labels of a requested verdict.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct GenerationLabels {
    application: ApplicationLabelValue,
    path: MetricLabelValue,
    outcome: MetricLabelValue,
}

impl GenerationLabels {
    const fn new(application: ApplicationName, path: GatePath, outcome: GenerationOutcome) -> Self {
        Self {
            application: ApplicationLabelValue(application),
            path: MetricLabelValue(path.into_str()),
            outcome: MetricLabelValue(outcome.into_str()),
        }
    }
}

/// The labels of an attempt to call the model.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ModelAttemptLabels {
    path: MetricLabelValue,
    status: MetricLabelValue,
}

impl ModelAttemptLabels {
    const fn new(path: GatePath, status: InteractionStatus) -> Self {
        Self { path: MetricLabelValue(path.into_str()), status: MetricLabelValue(status.into_str()) }
    }
}

/// The label of a request that the model refused permanently.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RefusedRequestLabels {
    status: u16,
}

/// The labels of a cost.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CostLabels {
    /// Empty for a trial of a prompt.
    application: Option<ApplicationLabelValue>,
    model: String,
    tier: MetricLabelValue,
}

/// The label of a token count.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TokenLabels {
    direction: MetricLabelValue,
}

/// The label of a request to a model.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ModelLabels {
    model: String,
}

/// From 10 ms to 41 s.
#[derive(Debug, Clone, Copy)]
struct AttemptBuckets;

impl MetricConstructor<Histogram> for AttemptBuckets {
    fn new_metric(&self) -> Histogram {
        Histogram::new(exponential_buckets(0.01, 2.0, 13))
    }
}

const fn latency(name: &'static str, title: &'static str, quantile: f64) -> MetricSeries {
    MetricSeries {
        name,
        title,
        unit: SeriesUnit::Seconds,
        metric: "model_attempt_seconds",
        filter: |_| true,
        by: Some("model"),
        measure: SeriesMeasure::Quantile(quantile),
    }
}

/// The series of requests to the models.
pub const SERIES: &[MetricSeries] = &[
    MetricSeries {
        name: "model_requests",
        title: "Requests to the models",
        unit: SeriesUnit::PerMinute,
        metric: "model_attempts_total",
        filter: |_| true,
        by: Some("status"),
        measure: SeriesMeasure::RatePerMinute,
    },
    latency("model_latency_p50", "Median time of a request to the model", 0.5),
    latency("model_latency_p99", "99th percentile of the time of a request to the model", 0.99),
];

/// The metrics of requested verdicts and calls of the model.
#[derive(Debug, Clone)]
pub struct GenerationMetrics {
    outcomes: Family<GenerationLabels, Counter>,
    attempts: Family<ModelAttemptLabels, Counter>,
    retries: Counter,
    attempt_seconds: Family<ModelLabels, Histogram, AttemptBuckets>,
    tokens: Family<TokenLabels, Counter>,
    costs: Family<CostLabels, Counter<f64, AtomicU64>>,
    refused_requests: Family<RefusedRequestLabels, Counter>,
}

impl GenerationMetrics {
    /// The metrics of verdicts of `applications` by models. The costs of `models` begin at 0. Other applications and models
    /// are added with their first verdict.
    pub fn register<'a>(
        registry: &mut Registry,
        applications: &[ApplicationName],
        models: impl Iterator<Item = &'a UpstreamId>,
    ) -> Self {
        let outcomes: Vec<_> = pairs(&PATHS, GenerationOutcome::VARIANTS).collect();
        let costs = Family::default();
        for oracle_id in models {
            for (application, tier) in pairs(applications, &ProductTier::ALL) {
                let (application, model) = (Some(ApplicationLabelValue(application)), oracle_id.to_string());
                let tier = MetricLabelValue(tier.into_str());
                drop(costs.get_or_create(&CostLabels { application, model, tier }));
            }
        }
        Self {
            outcomes: registry.add(
                "verdicts_made",
                "verdicts requested from the model, by application, path and outcome",
                init_counters(
                    pairs(applications, &outcomes).map(|(application, (path, outcome))| {
                        GenerationLabels::new(application, path, outcome)
                    }),
                ),
            ),
            attempts: registry.add(
                "model_attempts",
                "requests to the model, by path and status",
                init_counters(
                    pairs(&CALL_PATHS, InteractionStatus::VARIANTS)
                        .map(|(path, status)| ModelAttemptLabels::new(path, status)),
                ),
            ),
            retries: registry.add(
                "model_retries",
                "requests to the model after the first of a call",
                Counter::default(),
            ),
            refused_requests: registry.add(
                "model_refused_requests",
                "requests that the model refused permanently, by HTTP status",
                init_counters(PERMANENT_STATUSES.map(|status| RefusedRequestLabels { status })),
            ),
            attempt_seconds: registry.add_seconds(
                "model_attempt",
                "time of a request to the model, by model",
                Family::new_with_constructor(AttemptBuckets),
            ),
            tokens: registry.add(
                "model_tokens",
                "tokens that the model read and wrote",
                init_counters(
                    DIRECTIONS.map(|direction| TokenLabels { direction: MetricLabelValue(direction) }),
                ),
            ),
            costs: registry.add(
                "model_cost",
                "cost of model calls in the configured currency, by application, model and tier",
                costs,
            ),
        }
    }

    /// Counts a verdict that was requested on `path` for `application`, with its outcome.
    pub(super) fn count_outcome(
        &self,
        application: ApplicationName,
        path: GatePath,
        outcome: GenerationOutcome,
    ) {
        self.outcomes.get_or_create(&GenerationLabels::new(application, path, outcome)).inc();
    }

    /// Counts a request that the model's service refused permanently with `status`.
    pub(super) fn count_refused_request(&self, status: u16) {
        self.refused_requests.get_or_create(&RefusedRequestLabels { status }).inc();
    }

    /// Counts the attempts of one call of the model.
    pub(super) fn count_attempts(&self, attempts: &[AuditEvent]) {
        for attempt in attempts {
            let Some(OracleInteraction(interaction)) = attempt.kind.get() else { continue };
            self.attempts.get_or_create(&ModelAttemptLabels::new(interaction.path, interaction.status)).inc();
            self.retries.inc_by(u64::from(interaction.attempt > 1));
            let labels = ModelLabels { model: interaction.oracle_id.clone() };
            self.attempt_seconds.get_or_create(&labels).observe(interaction.latency_ms as f64 / 1000.0);
            let usage = interaction.usage.as_ref();
            let tokens =
                [usage.and_then(|usage| usage.prompt_tokens), usage.and_then(|usage| usage.output_tokens)];
            if let Some(cost) =
                interaction.cost.as_ref().and_then(|cost| cost.amount.to_string().parse().ok())
            {
                let tier = MetricLabelValue(interaction.tier.into_str());
                let application = attempt.session_id.as_ref().map(SessionId::application);
                let application = application.map(ApplicationLabelValue);
                let labels = CostLabels { application, model: interaction.oracle_id.clone(), tier };
                self.costs.get_or_create(&labels).inc_by(cost);
            }
            for (direction, tokens) in DIRECTIONS.into_iter().zip(tokens) {
                let direction = TokenLabels { direction: MetricLabelValue(direction) };
                // the model reports this number; no answer has more tokens, and the counter must not wrap
                let tokens = tokens.unwrap_or_default().min(u64::from(u32::MAX));
                self.tokens.get_or_create(&direction).inc_by(tokens);
            }
        }
    }
}
