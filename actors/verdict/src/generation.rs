//! Generating a verdict: limits, model call, gate. Orders and regenerations share these steps.

mod runner;

use crate::cache::VerdictCacheError;
use crate::crosscheck::{GateError, JudgeTrial};
use crate::generation::runner::{GenerationJob, ModelCallPermits, ModelRequest};
pub use crate::generation::runner::{GenerationMetrics, SERIES};
use crate::rate_limiter::{CallLimitError, CallPermitError, RegenPermit, RequestRegen, RequestTrialCall};
use crate::submission::{GenerationTrace, Submission, SubmissionOutcome};
use actors_audit::logger::CommitError;
use actors_platform::actor_handle::ActorCallError;
use actors_platform::clock::monotonic;
use actors_upstream::oracle_health::PermitError;
use actors_upstream::{ModelCallPurpose, ModelCaller, ModelError, ModelRefusal};
use domain_base::gate_path::GatePath;
use domain_base::payload::VerdictPayload;
use domain_base::session_id::{ApplicationName, SessionId};
use domain_base::upstream_text::UpstreamText;
use domain_upstream::upstream_id::UpstreamId;
use domain_verdict::cost::ModelCost;
use domain_verdict::crosscheck::CrosscheckDecision;
use domain_verdict::event::OracleInteraction;
use domain_verdict::generation::{GenerationOutcome, GenerationSettings, ModelTokenUsage, VerdictGeneration};
use domain_verdict::label::ProductTier;
use domain_verdict::order::OrderAttemptStart;
use domain_verdict::prompt::{
    ModelPrompt, PromptTemplate, PromptTierError, TemplateName, VerdictPrompt, build_verdict_prompt,
};
use domain_verdict::query::CustomerQuery;
use domain_verdict::regen::RegenFailure;
use domain_verdict::session::{OriginalVerdict, SessionCaller, SessionRecord};
use jiff::SignedDuration;
use oracled_store::{Store, StoreError};
pub use runner::{FirstCallDenial, FirstCallPermits, GenerationEnd, GenerationHandles, GenerationRunner};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The result of a generation, for all callers that wait for it.
pub type GenerationResult = Result<SubmissionOutcome, Arc<GenerationError>>;

/// Why there is no verdict. Nothing was delivered, and no part of the verdict is cached.
#[derive(Debug, thiserror::Error)]
pub enum GenerationError {
    /// The session is unknown, and so is its question. Or its verdict was never delivered, and its order generates it.
    #[error("the session is not known")]
    SessionUnknown,
    /// The session's first verdict was already delivered. It is regenerated only by a read.
    #[error("the session's verdict was already delivered")]
    DeliveredAlready,
    /// Too many orders are open.
    #[error("{0}")]
    QueueFull(QueueLimit),
    /// No model is configured.
    #[error("no model is configured; set `model.provider` and its key")]
    NoModel,
    /// There is no prompt.
    #[error(transparent)]
    Prompt(#[from] PromptError),
    /// A limit is reached.
    #[error(transparent)]
    Limited(CallLimitError),
    /// The model's circuit is open, or the model requested a wait.
    #[error("{error}")]
    NotPermitted {
        /// The cause.
        error: PermitError,
        /// Time until a retry makes sense.
        retry_after: Duration,
    },
    /// The model returned no answer that can be judged.
    #[error("{error}")]
    Model {
        /// Why the call returned no answer.
        error: ModelError,
        /// Time until a retry makes sense; `None` if a retry makes no sense.
        retry_after: Option<Duration>,
    },
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The attempt could not be committed.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// The cache failed.
    #[error(transparent)]
    Cache(#[from] VerdictCacheError),
    /// The gate could not judge or log the verdict.
    #[error(transparent)]
    Gate(#[from] GateError),
    /// An actor did not answer.
    #[error(transparent)]
    NoAnswer(#[from] ActorCallError),
    /// The generation task panicked.
    #[error("generating the verdict failed unexpectedly; the service log has the panic. Try again")]
    Crashed,
}

impl From<CallPermitError> for GenerationError {
    fn from(error: CallPermitError) -> Self {
        match error {
            CallPermitError::Limited(limited) => Self::Limited(limited),
            CallPermitError::Store(error) => Self::Store(error),
            CallPermitError::Commit(error) => Self::Commit(error),
        }
    }
}

impl SubmissionOutcome {
    pub(crate) const fn generation_outcome(&self) -> GenerationOutcome {
        match self {
            Self::Stored(_) => GenerationOutcome::Delivered,
            Self::Regenerated(..) => GenerationOutcome::Regenerated,
            Self::Replayed(_) => GenerationOutcome::Replayed,
            // a generated verdict is never only checked
            Self::Checked(_) | Self::RejectedByCrosscheck { .. } => GenerationOutcome::Rejected,
            Self::RejectedByRules { .. } => GenerationOutcome::RefusedByRules,
            Self::RejectedByPolicy { .. } => GenerationOutcome::RefusedByPolicy,
            Self::Held => GenerationOutcome::Held,
            Self::Opinion => GenerationOutcome::Opinion,
            Self::Cancelled => GenerationOutcome::Cancelled,
            Self::Mismatch(_) => GenerationOutcome::SessionMismatch,
        }
    }
}

impl GenerationError {
    /// The error with the text of the model.
    #[must_use]
    pub fn cause(&self) -> UpstreamText {
        match self {
            Self::Model { error, .. } => error.cause(),
            _ => UpstreamText::default().after(self),
        }
    }

    /// The outcome for the log, the metrics and the answer.
    #[must_use]
    pub const fn generation_outcome(&self) -> GenerationOutcome {
        match self {
            Self::SessionUnknown => GenerationOutcome::SessionUnknown,
            Self::DeliveredAlready => GenerationOutcome::DeliveredAlready,
            Self::NoModel => GenerationOutcome::NoModel,
            Self::Prompt(PromptError::Store(_)) => GenerationOutcome::StorageFailed,
            Self::Prompt(_) => GenerationOutcome::PromptUnavailable,
            Self::QueueFull(_) => GenerationOutcome::ModelBusy,
            Self::Limited(CallLimitError::Session { .. }) => GenerationOutcome::RateLimited,
            Self::Limited(
                CallLimitError::Places { .. }
                | CallLimitError::Budget { .. }
                | CallLimitError::Application { .. },
            ) => GenerationOutcome::ModelBusy,
            Self::Limited(CallLimitError::DailyBudget { .. }) => GenerationOutcome::BudgetUsedUp,
            Self::NotPermitted { error: PermitError::RequestedWait { .. }, .. } => {
                GenerationOutcome::QuotaWait
            }
            Self::NotPermitted { error: PermitError::Refusing { .. }, .. } => {
                GenerationOutcome::RequestRefused
            }
            Self::NotPermitted { .. } => GenerationOutcome::CircuitOpen,
            Self::Model { error, .. } => match error {
                ModelError::Unavailable { .. } => GenerationOutcome::ModelUnavailable,
                ModelError::UnreadableAnswer { .. } => GenerationOutcome::UnreadableAnswer,
                ModelError::Timeout { .. } => GenerationOutcome::ModelTimeout,
                ModelError::RefusedRequest { .. } => GenerationOutcome::RequestRefused,
                ModelError::Refused { reason: ModelRefusal::PromptBlocked(_) } => {
                    GenerationOutcome::PromptBlocked
                }
                ModelError::Refused { reason: ModelRefusal::Stopped(_) } => GenerationOutcome::StoppedEarly,
                ModelError::Refused { reason: ModelRefusal::Declined(_) } => GenerationOutcome::Declined,
                ModelError::Refused { reason: ModelRefusal::Empty } => GenerationOutcome::EmptyAnswer,
            },
            Self::Cache(VerdictCacheError::HeldKey(_)) => GenerationOutcome::HeldKeyUnusable,
            Self::Store(_) | Self::Commit(_) | Self::Cache(_) => GenerationOutcome::StorageFailed,
            Self::Gate(_) | Self::NoAnswer(_) | Self::Crashed => GenerationOutcome::Failed,
        }
    }
}

/// The limit of open orders that is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueLimit {
    pub queue_max: usize,
    /// The application that the limit is for; `None` for the limit of all.
    pub application: Option<ApplicationName>,
}

impl fmt::Display for QueueLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { queue_max, application } = self;
        let key = match application {
            None => "orders.queue_max".to_owned(),
            Some(name) => format!("applications.{name}.queue_max"),
        };
        write!(f, "too many orders are open (limit {queue_max}: `{key}`)")
    }
}

/// Why there is no prompt.
#[derive(Debug, thiserror::Error)]
pub enum PromptError {
    /// The template is not registered.
    #[error(
        "prompt template {0} is not registered; register it with `oraclectl apply`, or configure another one as \
         `prompt_template`"
    )]
    Unknown(TemplateName),
    /// The template has no text for the tier.
    #[error(transparent)]
    Tier(#[from] PromptTierError),
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The prompt template that `name` names.
///
/// # Errors
/// It is not registered, or the store cannot be read.
pub fn find_prompt_template(store: &Store, name: &TemplateName) -> Result<PromptTemplate, PromptError> {
    if let Some(built_in) = PromptTemplate::find_built_in(name) {
        return Ok(built_in.clone());
    }
    let found = store.find_document(name)?;
    found.ok_or_else(|| PromptError::Unknown(name.clone()))
}

/// The prompt of the template that `name` names.
///
/// # Errors
/// The template is not registered or has no text for the tier, or the store cannot be read.
pub fn find_prompt(
    store: &Store,
    name: &TemplateName,
    tier: ProductTier,
    query: &CustomerQuery,
) -> Result<ModelPrompt, PromptError> {
    Ok(build_verdict_prompt(&find_prompt_template(store, name)?, tier, query)?)
}

/// The stored prompt `first` again: its text, or else the prompt of its template. `None` if neither is available.
fn rebuild_prompt(
    store: &Store,
    first: &VerdictPrompt,
    tier: ProductTier,
    query: &CustomerQuery,
) -> Result<Option<ModelPrompt>, StoreError> {
    let VerdictPrompt { template, text, .. } = first;
    if let Some(text) = text {
        return Ok(Some(ModelPrompt::of_text(tier, text.clone())));
    }
    let Some(template) = template else { return Ok(None) };
    match find_prompt(store, &template.clone().into(), tier, query) {
        Ok(prompt) => Ok(Some(prompt)),
        Err(PromptError::Unknown(_) | PromptError::Tier(_)) => Ok(None),
        Err(PromptError::Store(error)) => Err(error),
    }
}

/// A configured model and its settings.
#[derive(Debug, Clone)]
pub struct ConfiguredModel {
    /// The client that calls the model.
    pub caller: ModelCaller,
    /// The settings for first verdicts.
    pub original: GenerationSettings,
}

impl ConfiguredModel {
    /// The model that `caller` calls. First verdicts use the settings in `original`; regenerations always use them with
    /// the locked sampling.
    #[must_use]
    pub const fn new(caller: ModelCaller, original: GenerationSettings) -> Self {
        Self { caller, original }
    }

    /// The model's name among the oracles.
    #[must_use]
    pub const fn oracle_id(&self) -> &UpstreamId {
        self.caller.oracle_id()
    }

    /// The beginning of the last attempt of an order with this model, which may not be called.
    pub(crate) fn start_of_last_attempt(&self, prompt: &ModelPrompt) -> OrderAttemptStart {
        let generation = VerdictGeneration::new(prompt, self.original.clone());
        // the model is not called
        let time_limit = SignedDuration::ZERO;
        OrderAttemptStart { oracle_id: self.oracle_id().clone(), generation, is_last: true, time_limit }
    }

    /// The settings of a regeneration (seed: "Regen configuration lock"): with the model that made the original, or this
    /// one if that is not known.
    fn regen_settings(&self, original: Option<&OriginalVerdict>) -> GenerationSettings {
        let settings = self.original.with_locked_sampling();
        match name_of_first_model(original) {
            Some(name) => GenerationSettings { model: name.to_owned(), ..settings },
            None => settings,
        }
    }
}

/// The name of the model that made the original, if it is known.
fn name_of_first_model(original: Option<&OriginalVerdict>) -> Option<&str> {
    Some(original?.settings.as_ref()?.model.as_str())
}

/// All configured models.
#[derive(Debug, Clone, Default)]
pub struct ConfiguredModels {
    /// The models for first verdicts, in the order in which they are tried.
    pub order: Vec<Arc<ConfiguredModel>>,
    /// The models in place of `order` for applications that have an order of their own.
    pub own_orders: BTreeMap<ApplicationName, Vec<Arc<ConfiguredModel>>>,
    /// The models that are not in `order`. Without an application's own order they only regenerate the verdicts that they
    /// made.
    pub others: Vec<Arc<ConfiguredModel>>,
}

impl ConfiguredModels {
    /// The models with prices.
    pub fn priced(&self) -> impl Iterator<Item = &UpstreamId> {
        let all = self.order.iter().chain(&self.others);
        all.filter(|model| model.caller.has_prices()).map(|model| model.oracle_id())
    }

    /// The models for first verdicts of `application`, in the order in which they are tried.
    pub(crate) fn order_of(&self, application: &ApplicationName) -> &[Arc<ConfiguredModel>] {
        self.own_orders.get(application).unwrap_or(&self.order)
    }

    /// The model with this name among the oracles.
    pub(crate) fn find(&self, oracle_id: &UpstreamId) -> Option<&Arc<ConfiguredModel>> {
        self.order.iter().chain(&self.others).find(|model| model.oracle_id() == oracle_id)
    }

    /// The ids of the models for first verdicts, of all applications and of those with an order of their own.
    pub fn orders(&self) -> Vec<(Option<ApplicationName>, Vec<UpstreamId>)> {
        let own = self.own_orders.iter().map(|(name, order)| (Some(name.clone()), order));
        let ids =
            |order: &[Arc<ConfiguredModel>]| order.iter().map(|model| model.oracle_id().clone()).collect();
        [(None, &self.order)].into_iter().chain(own).map(|(name, order)| (name, ids(order))).collect()
    }

    /// The models that make first verdicts of any application, each once.
    pub fn for_first_verdicts(&self) -> Vec<UpstreamId> {
        let mut ids = Vec::new();
        for model in self.order.iter().chain(self.own_orders.values().flatten()) {
            if !ids.contains(model.oracle_id()) {
                ids.push(model.oracle_id().clone());
            }
        }
        ids
    }

    /// The first model of the order.
    pub(crate) fn first(&self) -> Option<&Arc<ConfiguredModel>> {
        self.order.first()
    }

    /// The model that regenerates a verdict of `application`: the one that made the original, or the first one of the
    /// application if no configured model has its name.
    fn for_regen(
        &self,
        application: &ApplicationName,
        original: Option<&OriginalVerdict>,
    ) -> Option<&Arc<ConfiguredModel>> {
        let (name, own) = (name_of_first_model(original), self.order_of(application));
        let mut models = own.iter().chain(&self.order).chain(&self.others);
        models.find(|model| name == Some(model.original.model.as_str())).or_else(|| own.first())
    }

    /// The model for a second call, if `error` may mean that the provider has no model of the name in `settings`: the
    /// first one of `application`. Most providers answer 404 then, some 400.
    fn substitute(
        &self,
        application: &ApplicationName,
        settings: &GenerationSettings,
        error: &ModelError,
    ) -> Option<&Arc<ConfiguredModel>> {
        let may_be_gone = matches!(error, ModelError::RefusedRequest { status: 400 | 404, .. });
        let first = self.order_of(application).first();
        first.filter(|first| may_be_gone && settings.model != first.original.model)
    }
}

impl GenerationRunner {
    /// Regenerates the lost verdict of a session.
    pub(crate) async fn regenerate(&self, session_id: SessionId) -> GenerationResult {
        let application = session_id.application();
        let result = self.try_regenerate(session_id).await;
        self.count_outcome(application, GatePath::Regen, &result);
        Ok(result?)
    }

    /// The prompt for a verdict in place of a lost one: that of the first verdict, if it is available.
    fn regen_prompt(&self, session: &SessionRecord) -> Result<ModelPrompt, GenerationError> {
        let SessionRecord { session_id, tier, query, original, .. } = session;
        let first = original.as_ref().and_then(|original| original.prompt.as_ref());
        let first = first.map(|first| rebuild_prompt(&self.store, first, *tier, query)).transpose()?;
        first.flatten().map_or_else(|| self.first_prompt(&session_id.application(), *tier, query), Ok)
    }

    async fn try_regenerate(&self, session_id: SessionId) -> Result<SubmissionOutcome, GenerationError> {
        // another flight may have stored the verdict since the reader's cache miss
        if let Some((delivery, _)) = self.store.verdict(&session_id)? {
            return Ok(SubmissionOutcome::Replayed(Arc::new(delivery.into())));
        }
        let session = self.store.session(&session_id)?.map(|(session, _)| session);
        // an order that was placed since the reader's cache miss generates the verdict
        let session = session.filter(|session| !session.has_unfinished_order());
        let session = session.ok_or(GenerationError::SessionUnknown)?;
        let model = self.models.for_regen(&session_id.application(), session.original.as_ref());
        let model = model.ok_or(GenerationError::NoModel)?;
        if let Some(wait) = self.regen_wait(&session_id) {
            return Err(GenerationError::Limited(CallLimitError::Session { wait }));
        }
        let mut job = GenerationJob {
            request: ModelRequest {
                prompt: self.regen_prompt(&session)?,
                settings: model.regen_settings(session.original.as_ref()),
            },
            submission: Submission {
                session_id: session_id.clone(),
                caller: SessionCaller::Daemon,
                tier: session.tier,
                query: session.query,
                payload: None,
                customer_email: None,
                check: session.check,
                path: GatePath::Regen,
                prompt: None,
                generation_trace: None,
                evidence: Vec::new(),
            },
        };
        let lease = self.request_lease(model).await?;
        let take = RequestRegen {
            session_id,
            oracle_id: model.oracle_id().clone(),
            tier: session.tier,
            generation: job.request.generation(),
        };
        // the deadline counts from before the commit: after it, another host may call
        let began = monotonic();
        let (regen_permit, slot) = self.handles.rate_limiter.ask(take).await??;
        job.submission.evidence.clone_from(&regen_permit.evidence);
        let (spent, attempt) = (began.elapsed(), Some(regen_permit.clone()));
        let permits = ModelCallPermits { lease, slot, spent, regen_permit: attempt };
        let result = self.call_and_judge(model, job, permits).await.result;
        if let Some(failure) = self.regen_failure(&result) {
            self.note_failed_regen(regen_permit, failure).await;
        }
        result
    }

    /// How a regeneration failed; `None` if a reader finds its end in the session or its verdict.
    fn regen_failure(&self, result: &Result<SubmissionOutcome, GenerationError>) -> Option<RegenFailure> {
        let (cause, retry_after) = match result {
            Ok(rejected) => (UpstreamText::new(rejected.rejection_cause()?), rejected.retry_after()),
            Err(error @ GenerationError::Model { retry_after, .. }) => (error.cause(), *retry_after),
            Err(error) => (error.cause(), None),
        };
        let (decision, policy_causes, rejection) = match result {
            Ok(SubmissionOutcome::RejectedByCrosscheck { decision, .. }) => {
                (Some(decision.clone()), Vec::new(), None)
            }
            Ok(SubmissionOutcome::RejectedByPolicy { decision, causes, .. }) => {
                (Some(decision.clone()), causes.clone(), None)
            }
            Ok(SubmissionOutcome::RejectedByRules { rejection, .. }) => {
                (None, Vec::new(), Some(rejection.rejection.clone()))
            }
            _ => (None, Vec::new(), None),
        };
        let outcome = result
            .as_ref()
            .map_or_else(GenerationError::generation_outcome, SubmissionOutcome::generation_outcome);
        let retry_at = retry_after.and_then(|wait| self.clock.now().checked_add(wait).ok());
        let cause = cause.stored();
        Some(RegenFailure { outcome, cause, decision, policy_causes, rejection, retry_at })
    }

    /// Commits the end of a regeneration on a host of a cluster. If this fails, readers on other hosts wait until the model's time
    /// limit has passed.
    async fn note_failed_regen(&self, attempt: RegenPermit, failure: RegenFailure) {
        let Some(record) = attempt.failed(failure, self.clock.now()) else { return };
        match self.handles.log.commit(record).await {
            // a call that did not reach the model has removed its attempt
            Ok(_) | Err(CommitError::Stale(_)) => {}
            Err(error) => tracing::warn!(%error, "could not store the end of a regeneration"),
        }
    }

    /// The time until a session's verdict may be regenerated; `None` for now. The rate limiter decides. This check only
    /// avoids that requests that come too soon reach the rate limiter and the circuit.
    fn regen_wait(&self, session_id: &SessionId) -> Option<Duration> {
        let noted = self.store.regen_attempt(session_id).ok().flatten();
        let wait = noted.and_then(|(attempt, _)| attempt.wait(self.clock.now()));
        wait.map(|wait| wait.unsigned_abs())
    }
}

/// One trial of a prompt template.
#[derive(Debug, Clone)]
pub struct PromptTrial {
    pub template: PromptTemplate,
    pub tier: ProductTier,
    pub query: CustomerQuery,
    /// Whether the trial ends before the model is called.
    pub check_only: bool,
}

/// The result of a trial.
#[derive(Debug)]
pub struct PromptTrialResult {
    pub oracle_id: UpstreamId,
    /// The name of the model at its provider.
    pub model: String,
    /// The decision on the answer; `None` if there was no answer that can be judged, or the model was not called.
    pub decision: Option<CrosscheckDecision>,
    /// Why there was no answer that can be judged.
    pub failure: Option<UpstreamText>,
    /// The tokens used, with retries.
    pub usage: Option<ModelTokenUsage>,
    /// The cost, with retries; `None` if the model has no prices, or reported no tokens.
    pub cost: Option<ModelCost>,
}

impl GenerationRunner {
    /// Asks the first configured model once with a prompt of the template, with the settings of first verdicts, and judges the answer. Only
    /// log entries are stored.
    ///
    /// # Errors
    /// The first model may not be called now, requests a wait or rejects the request itself, or the answer could not be judged or
    /// logged.
    pub(crate) async fn try_prompt(&self, trial: PromptTrial) -> Result<PromptTrialResult, GenerationError> {
        let PromptTrial { template, tier, query, check_only } = trial;
        let prompt = build_verdict_prompt(&template, tier, &query).map_err(PromptError::from)?;
        // a fallback would mix the results of two models
        let model = self.models.first().ok_or(GenerationError::NoModel)?;
        let (oracle_id, name) = (model.oracle_id().clone(), model.original.model.clone());
        let mut result = PromptTrialResult {
            oracle_id,
            model: name,
            decision: None,
            failure: None,
            usage: None,
            cost: None,
        };
        if check_only {
            return Ok(result);
        }
        let lease = self.request_first_lease_of(model, false).await?;
        let _slots = self.handles.rate_limiter.ask(RequestTrialCall(model.oracle_id().clone())).await??;
        let request = ModelRequest { prompt, settings: model.original.clone() };
        let purpose = ModelCallPurpose { session_id: None, path: GatePath::Try };
        let called = self.call_model(model, &model.caller, &purpose, &request).await;
        self.count_refused_request(&called);
        self.report_call(lease, &purpose, &called, true);
        let interactions = called.interactions;
        result.usage = ModelTokenUsage::sum(interactions.iter().filter_map(OracleInteraction::usage_of));
        let costs = interactions.iter().filter_map(OracleInteraction::cost_of);
        result.cost = ModelCost::sum(costs.map(|sum| sum.cost));
        let trace = GenerationTrace { generation: request.generation(), interactions };
        match called.outcome {
            Ok(answer) => {
                let payload = VerdictPayload::raw(&answer.text);
                let record = GenerationTrace::record(Some(&trace), None);
                let judge = JudgeTrial { tier, query, payload, record };
                result.decision = Some(self.handles.crosscheck.ask(judge).await??);
            }
            Err(error) => {
                self.handles.log.commit(GenerationTrace::record(Some(&trace), None)).await?;
                match error {
                    ModelError::RefusedRequest { .. } => {
                        return Err(GenerationError::Model { error, retry_after: None });
                    }
                    ModelError::Unavailable { retry_after: Some(retry_after), .. } => {
                        let oracle_id = model.oracle_id().clone();
                        let error = PermitError::RequestedWait { oracle_id, retry_after };
                        return Err(GenerationError::NotPermitted { error, retry_after });
                    }
                    _ => result.failure = called.cause,
                }
            }
        }
        Ok(result)
    }
}
