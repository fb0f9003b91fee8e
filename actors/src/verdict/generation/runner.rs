//! One generation: limits, model call, gate.

use super::error::GenerationError;
use super::prompt::{PromptError, find_prompt, find_prompt_template};
use super::{ConfiguredModel, ConfiguredModels};
use crate::audit::logger::{CommitError, LoggerHandle};
use crate::platform::actor_handle::ActorHandle;
use crate::platform::clock::{Clock, monotonic};
use crate::platform::metrics::ActorMetrics;
use crate::platform::per_application::PerApplication;
use crate::upstream::oracle_health::{
    ApplyQuotaWait, CallLease, ListHealthStatuses, OracleHealth, PermitError, RequestCallPermit,
};
use crate::upstream::{ModelCallPurpose, ModelCallResult, ModelCaller, ModelError, ModelHealthEffect};
use crate::verdict::cache::VerdictCache;
use crate::verdict::crosscheck::{CrosscheckActor, JudgeVerdict};
use crate::verdict::rate_limiter::{
    ModelCallSlot, RateLimiter, RegenPermit, RequestCallRetry, RequestFirstCall,
};
use crate::verdict::submission::{GenerationTrace, Submission, SubmissionOutcome};
use oracled_domain::verdict::cost::ModelCost;
use oracled_domain::verdict::generation::{GenerationSettings, ModelTokenUsage};
use oracled_domain::verdict::health;
use oracled_domain::verdict::prompt::build_prompt_after_rejection;
use oracled_domain::verdict::rejection::{AnswerRejection, RejectedClaim};
use oracled_domain::verdict::template_name::TemplateName;
use oracled_domain::{
    ApplicationName, AuditEvent, CustomerQuery, GatePath, ModelPrompt, OracleId, ProductTier, SessionId,
    VerdictGeneration, VerdictPayload,
};
use oracled_store::Store;
use std::sync::Arc;
use std::time::Duration;

/// When to retry if an administrator holds the circuit open, or the model reports no wait.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// The actors that a generation calls.
#[derive(Debug, Clone)]
pub(crate) struct GenerationHandles {
    pub(crate) rate_limiter: ActorHandle<RateLimiter>,
    pub(crate) oracle_health: ActorHandle<OracleHealth>,
    pub(crate) crosscheck: ActorHandle<CrosscheckActor>,
    pub(crate) cache: ActorHandle<VerdictCache>,
    pub(crate) log: LoggerHandle,
}

/// Runs generations, which share its parts.
#[derive(Debug)]
pub(crate) struct GenerationRunner {
    pub(crate) models: ConfiguredModels,
    /// The configured template of prompts.
    pub(crate) prompt_templates: PerApplication<TemplateName>,
    pub(crate) handles: GenerationHandles,
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) metrics: ActorMetrics,
}

/// The permits of one call of the model for a first verdict.
#[derive(Debug)]
pub(crate) struct FirstCallPermits {
    model: Arc<ConfiguredModel>,
    /// The settings for this call.
    settings: GenerationSettings,
    lease: CallLease,
    slot: ModelCallSlot,
}

impl FirstCallPermits {
    /// The prompt with the settings of the call.
    pub(crate) fn generation(&self, prompt: &ModelPrompt) -> VerdictGeneration {
        VerdictGeneration::new(prompt, self.settings.clone())
    }

    /// The same for a call with another temperature, if one is given.
    pub(crate) fn with_temperature(self, temperature: Option<f64>) -> Self {
        let settings = temperature.map(|temperature| self.settings.with_temperature(temperature));
        Self { settings: settings.unwrap_or(self.settings), ..self }
    }
}

/// The end of one generation.
#[derive(Debug)]
pub(crate) struct GenerationEnd {
    pub(crate) result: Result<SubmissionOutcome, GenerationError>,
    /// The tokens used, with retries.
    pub(crate) usage: Option<ModelTokenUsage>,
    pub(crate) cost: Option<ModelCost>,
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
        let FirstCallPermits { model, settings, lease, slot } = permits;
        let application = submission.session_id.application();
        let request = ModelRequest { prompt, settings };
        let job = GenerationJob { submission, request };
        let permits = ModelCallPermits { lease, slot, regen_permit: None };
        let end = self.call_and_judge(&model, job, permits).await;
        self.count_outcome(application, GatePath::Generate, &end.result);
        end
    }

    /// The permits of a call for a first verdict, or why no model may be called now.
    pub(crate) async fn request_first_call(
        &self,
        application: ApplicationName,
    ) -> Result<FirstCallPermits, GenerationError> {
        let (model, lease) = self.request_first_lease(&application).await?;
        let call = RequestFirstCall { oracle_id: model.oracle_id().clone(), application };
        let slot = self.handles.rate_limiter.ask(call).await?;
        Ok(FirstCallPermits { settings: model.original.clone(), model, lease, slot: slot? })
    }

    /// The first model of the application's order that may be called now. The error is that of the model that may be called soonest.
    pub(super) async fn request_first_lease(
        &self,
        application: &ApplicationName,
    ) -> Result<(Arc<ConfiguredModel>, CallLease), GenerationError> {
        let mut soonest: Option<(Duration, GenerationError)> = None;
        for model in self.models.order_of(application) {
            match self.request_lease(model).await {
                Ok(lease) => return Ok((Arc::clone(model), lease)),
                Err(error @ GenerationError::NotPermitted { retry_after, .. }) => {
                    if soonest.as_ref().is_none_or(|(wait, _)| retry_after < *wait) {
                        soonest = Some((retry_after, error));
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Err(soonest.map_or(GenerationError::NoModel, |(_, error)| error))
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
        let outcome = result
            .as_ref()
            .map_or_else(GenerationError::generation_outcome, SubmissionOutcome::generation_outcome);
        self.metrics.generation.count_outcome(application, path, outcome);
    }

    pub(super) async fn request_lease(&self, model: &ConfiguredModel) -> Result<CallLease, GenerationError> {
        // a verdict that could not be delivered must not cost a model call
        if let Some((cause, _)) = self.handles.log.report().borrow().new_work_rejection() {
            return Err(CommitError::Unavailable(cause.clone()).into());
        }
        let permit = self.handles.oracle_health.ask(RequestCallPermit(model.oracle_id().clone())).await?;
        permit.map_err(|error| {
            let retry_after = match &error {
                PermitError::CircuitOpen { retry_after, .. } => retry_after.unwrap_or(RETRY_AFTER),
                PermitError::QuotaWait { retry_after, .. } => *retry_after,
                PermitError::Unknown(_) => RETRY_AFTER,
            };
            GenerationError::NotPermitted { error, retry_after }
        })
    }

    /// Whether the circuit has not opened since it permitted the call.
    async fn is_circuit_closed(&self, oracle_id: &OracleId) -> bool {
        let statuses = self.handles.oracle_health.ask(ListHealthStatuses).await.unwrap_or_default();
        statuses.iter().any(|health| {
            health.oracle_id == *oracle_id && health.status != health::OracleHealthLevel::CircuitOpen
        })
    }

    /// Calls the model and sends its answer to the gate.
    pub(super) async fn call_and_judge(
        &self,
        model: &ConfiguredModel,
        mut job: GenerationJob,
        leave: ModelCallPermits,
    ) -> GenerationEnd {
        let ModelCallPermits { mut lease, mut slot, regen_permit } = leave;
        let began = monotonic();
        let Submission { session_id, path, .. } = &job.submission;
        let application = session_id.application();
        let purpose = ModelCallPurpose { session_id: Some(session_id.clone()), path: *path };
        let mut called = self.call_model(model, &model.caller, &purpose, &job.request).await;
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
                        std::mem::replace(&mut lease, other).report(health_outcome(&called));
                        slot = other_slot;
                    }
                    let gone = std::mem::take(&mut called.interactions);
                    let caller = first.caller.with_time_spent(began.elapsed());
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
        self.report_call(lease, &called);
        let ModelCallResult { outcome, interactions, reached, .. } = called;
        let usage = ModelTokenUsage::sum(interactions.iter().filter_map(AuditEvent::token_usage));
        let costs = interactions.iter().filter_map(AuditEvent::model_cost);
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

    /// Counts the attempts of a finished call, and reports its effect on the model's health.
    pub(super) fn report_call(&self, lease: CallLease, called: &ModelCallResult) {
        self.metrics.generation.count_attempts(&called.interactions);
        lease.report(health_outcome(called));
    }

    /// Counts a call that the model refused permanently.
    pub(super) fn count_refused_request(&self, called: &ModelCallResult) {
        if let Err(ModelError::RefusedRequest { status, .. }) = &called.outcome {
            self.metrics.generation.count_refused_request(*status);
        }
    }

    pub(super) async fn call_model(
        &self,
        model: &ConfiguredModel,
        caller: &ModelCaller,
        purpose: &ModelCallPurpose,
        request: &ModelRequest,
    ) -> ModelCallResult {
        let on_quota_wait = async |wait| {
            let quota_wait = ApplyQuotaWait { oracle_id: model.oracle_id().clone(), wait };
            if let Err(error) = self.handles.oracle_health.ask(quota_wait).await {
                tracing::warn!(%error, "could not store the wait that the model requested");
            }
        };
        let may_retry = async || self.check_retry(model, purpose).await.is_ok();
        caller.call(purpose, &request.prompt, &request.settings, on_quota_wait, may_retry).await
    }

    /// Checks that an attempt may be retried: the model's circuit is closed, and the budget of calls is not used up.
    async fn check_retry(
        &self,
        model: &ConfiguredModel,
        purpose: &ModelCallPurpose,
    ) -> Result<(), GenerationError> {
        let oracle_id = model.oracle_id().clone();
        if !self.is_circuit_closed(&oracle_id).await {
            let error = PermitError::CircuitOpen { oracle_id, retry_after: None };
            return Err(GenerationError::NotPermitted { error, retry_after: RETRY_AFTER });
        }
        let application = purpose.session_id.as_ref().map(SessionId::application);
        let retry = RequestCallRetry { oracle_id, application };
        self.handles.rate_limiter.ask(retry).await?.map_err(GenerationError::Limited)
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

/// The effect of a call on the model's health.
fn health_outcome(called: &ModelCallResult) -> health::CircuitCallOutcome {
    match called.health {
        ModelHealthEffect::Answered => {
            health::CircuitCallOutcome::Success { latency_ms: Some(called.latency_ms) }
        }
        ModelHealthEffect::Neutral => health::CircuitCallOutcome::Neutral,
        ModelHealthEffect::Failed => {
            let why = called.outcome.as_ref().err().map(ToString::to_string).unwrap_or_default();
            match called.outcome {
                Err(ModelError::RefusedRequest { .. }) => health::CircuitCallOutcome::Refusal(why),
                _ => health::CircuitCallOutcome::Failure(why),
            }
        }
    }
}
