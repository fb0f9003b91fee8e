//! One call of a model: attempts with retries until the deadline, each logged as an [`OracleInteractionLog`].

use super::failure::{RETRY_AFTER_MAX, RequestFailure, RequestFailureKind};
use super::{ModelAttempt, ModelClient, ModelRefusal, ModelTextError};
use actors_platform::clock::{Clock, monotonic};
use actors_platform::key_file::unique_id;
use actors_platform::span::{Span, SpanKind};
use backon::{BackoffBuilder, ExponentialBuilder};
use domain_base::event::AuditEvent;
use domain_base::gate_path::GatePath;
use domain_base::session_id::SessionId;
use domain_base::upstream_text::{OTHER_WORD, UpstreamText};
use domain_upstream::event::InteractionStatus;
use domain_upstream::upstream_id::UpstreamId;
use domain_verdict::cost::ModelPrices;
use domain_verdict::event::OracleInteraction;
use domain_verdict::generation::GenerationSettings;
use domain_verdict::interaction::OracleInteractionLog;
use domain_verdict::prompt::ModelPrompt;
use jiff::Timestamp;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::sleep;
use tracing::warn;

/// The pause before the first retry; each further one is twice as long (seed: `rfc-0002-ground-truth`, "Timeout
/// Defaults").
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const PAUSE_FACTOR: f32 = 2.0;
/// Default number of retries after the first attempt (seed: the same section).
pub const RETRIES_MAX: u32 = 3;

/// The finish reasons that the APIs declare. They are kept even if the prompt has the same word.
const FINISH_REASONS: [&str; 13] = [
    "STOP",
    "MAX_TOKENS",
    "SAFETY",
    "RECITATION",
    "PROHIBITED_CONTENT",
    "stop",
    "length",
    "content_filter",
    "end_turn",
    "max_tokens",
    "stop_sequence",
    "refusal",
    "error",
];

/// Timeouts and retries of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelCallPolicy {
    /// The log marks an attempt that takes longer.
    pub soft_timeout: Duration,
    /// An attempt that takes longer is aborted.
    pub hard_timeout: Duration,
    /// Limit for all attempts together, including the pauses between them.
    pub deadline: Duration,
    /// Maximum number of retries after the first attempt.
    pub max_retries: u32,
}

impl Default for ModelCallPolicy {
    fn default() -> Self {
        Self {
            soft_timeout: Duration::from_secs(2),
            hard_timeout: Duration::from_secs(20),
            deadline: Duration::from_secs(28),
            max_retries: RETRIES_MAX,
        }
    }
}

/// The pauses before each of `max_retries` retries. Random jitter is added to each, so that callers do not retry at the
/// same moment.
pub fn retry_pauses(max_retries: u32) -> impl Iterator<Item = Duration> + use<> {
    ExponentialBuilder::new()
        .with_min_delay(FIRST_PAUSE)
        .with_factor(PAUSE_FACTOR)
        .with_jitter()
        .without_max_delay()
        .with_max_times(usize::try_from(max_retries).unwrap_or(usize::MAX))
        .build()
}

/// The session and the path that a call belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelCallPurpose {
    /// The session whose verdict is generated; `None` for a trial of a prompt template.
    pub session_id: Option<SessionId>,
    /// The path on which the call is made.
    pub path: GatePath,
}

/// A model's answer. Its metadata is in the call's last [`OracleInteractionLog`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelAnswer {
    /// The model's text, without a code fence around it.
    pub text: String,
}

/// Why a call returned no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// The model could not be reached, or failed.
    #[error("the model is not available: {failure}")]
    Unavailable {
        /// The last failure.
        failure: String,
        text: UpstreamText,
        /// The wait that the model requested: at most one hour.
        retry_after: Option<Duration>,
    },
    /// The answer cannot be read, or is too large. The call may have cost money.
    #[error("the model's answer is unusable: {failure}")]
    UnreadableAnswer { failure: String, text: UpstreamText },
    /// No answer arrived in time.
    #[error("the model did not answer in time: {failure}")]
    Timeout {
        /// The last timeout.
        failure: String,
    },
    /// The model rejected the request itself. The same request would be rejected again.
    #[error("the model rejected the request: {failure}")]
    RefusedRequest {
        /// The HTTP status.
        status: u16,
        failure: String,
        /// The model's message.
        text: UpstreamText,
    },
    /// The model answered without a usable text. A retry would not help.
    #[error("the model gave no verdict: {reason}")]
    Refused {
        /// Why the answer cannot be used.
        reason: ModelRefusal,
    },
}

impl ModelError {
    /// The error with the text of the model.
    #[must_use]
    pub fn cause(&self) -> UpstreamText {
        match self {
            Self::Unavailable { text, .. }
            | Self::UnreadableAnswer { text, .. }
            | Self::RefusedRequest { text, .. } => text.after(self),
            Self::Timeout { .. } => UpstreamText::default().after(self),
            // the text names the reaction of the model
            Self::Refused { reason } => reason.cause().after(&"the model gave no verdict"),
        }
    }
}

/// The effect of a call on the model's health.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelHealthEffect {
    /// The model answered; the content of the answer does not matter.
    Answered,
    Failed,
    /// The model rejected the caller: its key, its credit, or the name of the model.
    Refused,
    /// No effect: the request was wrong, or exceeded a rate limit.
    Neutral,
}

/// The result of a finished call.
#[derive(Debug)]
pub struct ModelCallResult {
    /// The answer, or why there is none.
    pub outcome: Result<ModelAnswer, ModelError>,
    /// The text of the error without the number and the time of the requests, so that equal failures have equal texts.
    pub cause: Option<UpstreamText>,
    /// The kind of the last failure, for the model's health.
    pub failure_kind: Option<RequestFailureKind>,
    /// One log event for each attempt.
    pub interactions: Vec<AuditEvent>,
    /// Whether any attempt may have reached the model.
    pub reached: bool,
    /// The effect of the last attempt on the model's health.
    pub health: ModelHealthEffect,
    /// Duration of the last attempt, in milliseconds.
    pub latency_ms: u64,
}

/// A client that calls one model with retries.
#[derive(Debug, Clone)]
pub struct ModelCaller {
    oracle_id: UpstreamId,
    model: Arc<dyn ModelClient>,
    policy: ModelCallPolicy,
    prices: Option<ModelPrices>,
    clock: Clock,
}

/// The data that all attempts of one call share.
#[derive(Debug, Clone, Copy)]
struct ModelCallContext<'a> {
    path: GatePath,
    prompt: &'a ModelPrompt,
    settings: &'a GenerationSettings,
    execution_id: &'a str,
    has_session: bool,
}

impl ModelCaller {
    /// Creates a client that calls `model` within the limits of `policy`. The log names the model `oracle_id`.
    #[must_use]
    pub const fn new(
        oracle_id: UpstreamId,
        model: Arc<dyn ModelClient>,
        policy: ModelCallPolicy,
        clock: Clock,
    ) -> Self {
        Self { oracle_id, model, policy, prices: None, clock }
    }

    /// Sets the prices, from which the cost of each call is computed.
    #[must_use]
    pub fn with_prices(self, prices: Option<ModelPrices>) -> Self {
        Self { prices, ..self }
    }

    /// Whether the calls have costs.
    #[must_use]
    pub const fn has_prices(&self) -> bool {
        self.prices.is_some()
    }

    /// The model's name among the oracles.
    #[must_use]
    pub const fn oracle_id(&self) -> &UpstreamId {
        &self.oracle_id
    }

    /// The longest time that a call takes, with retries.
    #[must_use]
    pub const fn deadline(&self) -> Duration {
        self.policy.deadline
    }

    /// Returns the same client with its deadline shortened by `spent`.
    #[must_use]
    pub fn with_time_spent(&self, spent: Duration) -> Self {
        let deadline = self.policy.deadline.saturating_sub(spent);
        Self { policy: ModelCallPolicy { deadline, ..self.policy }, ..self.clone() }
    }

    /// Calls the model, with retries where they may help. After each pause, `may_retry` is called and can stop further
    /// attempts. The first attempt does not call `may_retry`.
    ///
    /// A wait that the model requests is respected. If it would end after the deadline, the call ends at once
    /// and returns the wait. An attempt without an answer at the deadline is a timeout. `on_requested_wait`
    /// receives the wait that the model asks for, for example when a quota is used up. That wait applies to all
    /// calls of the model.
    ///
    /// Dropping the future loses the log events: run it in a separate task.
    pub async fn call(
        &self,
        purpose: &ModelCallPurpose,
        prompt: &ModelPrompt,
        settings: &GenerationSettings,
        mut on_requested_wait: impl AsyncFnMut(Duration),
        mut may_retry: impl AsyncFnMut() -> bool,
    ) -> ModelCallResult {
        let began = monotonic();
        let ModelCallPurpose { session_id, path } = purpose;
        let subject = session_id.as_ref().map_or(prompt.sha256().as_str(), SessionId::as_str);
        let execution_id = unique_id('m', self.clock.now());
        let call = ModelCallContext {
            path: *path,
            prompt,
            settings,
            execution_id: &execution_id,
            has_session: session_id.is_some(),
        };
        let mut pauses = retry_pauses(self.policy.max_retries);
        let (mut interactions, mut reached) = (Vec::new(), false);
        let (mut outcome, latency_ms) = loop {
            let number = u32::try_from(interactions.len() + 1).unwrap_or(u32::MAX);
            let (outcome, interaction, ended_at) = self.attempt(call, number, self.time_left(began)).await;
            let latency_ms = interaction.latency_ms;
            let interaction = OracleInteraction(Box::new(interaction));
            interactions.push(AuditEvent::new(ended_at, session_id.clone(), interaction));
            reached |= outcome.as_ref().err().is_none_or(ModelTextError::reached);
            let Err(ModelTextError::Failed(failure)) = &outcome else { break (outcome, latency_ms) };
            warn!(oracle_id = %self.oracle_id, subject, request = number, %failure, "a request to the model failed");
            if let Some(wait) = failure.requested_wait() {
                on_requested_wait(wait).await;
            }
            let Some(wait) = retry_wait(failure, pauses.next(), self.time_left(began)) else {
                break (outcome, latency_ms);
            };
            sleep(wait).await;
            if !may_retry().await {
                break (outcome, latency_ms);
            }
        };
        let cause = outcome.as_ref().err().map(|miss| ModelError::from(miss.clone()).cause());
        if let Err(ModelTextError::Failed(failure)) = &mut outcome
            && interactions.len() > 1
        {
            let took = monotonic().duration_since(began).as_secs_f64();
            let total = format!("the last of {} requests in {took:.1} s", interactions.len());
            let end = if failure.detail.is_empty() { "" } else { "; " };
            failure.detail = format!("{}{end}{total}", failure.detail);
        }
        ModelCallResult::new(outcome, cause, interactions, reached, latency_ms)
    }

    /// The time left before the deadline.
    fn time_left(&self, began: Instant) -> Duration {
        self.policy.deadline.saturating_sub(monotonic().duration_since(began))
    }

    async fn attempt(
        &self,
        call: ModelCallContext<'_>,
        number: u32,
        left: Duration,
    ) -> (Result<ModelAnswer, ModelTextError>, OracleInteractionLog, Timestamp) {
        let ModelCallContext { path, prompt, settings, execution_id, has_session } = call;
        let (began, request_timestamp) = (monotonic(), self.clock.now());
        let mut span = Span::child(SpanKind::Client, "chat");
        let attempt =
            span.run(self.model.attempt(prompt, settings, self.policy.hard_timeout.min(left))).await;
        let (latency, timestamp) = (monotonic().duration_since(began), self.clock.now());

        let requested_version = self.model.oracle_version(settings);
        let (outcome, metadata) = match attempt {
            ModelAttempt::AnswerReceived(answer, outcome) => {
                (outcome.map(|text| ModelAnswer { text }), Some(answer))
            }
            ModelAttempt::NoAnswerReceived(failure) => (Err(ModelTextError::Failed(failure)), None),
        };
        let usage = metadata.as_ref().and_then(|answer| answer.usage);
        let answer = outcome.as_ref().map_or("", |answer| &answer.text);
        let kept_word = |word: &UpstreamText| {
            let is_declared = FINISH_REASONS.contains(&word.reveal());
            let kept = has_session.then(|| word.word([prompt.text(), answer]));
            if is_declared { word.clone() } else { kept.unwrap_or_else(|| OTHER_WORD.into()) }
        };
        let version_of = |name: &UpstreamText| match self.model.version_of(name.reveal()) {
            version if version == requested_version => UpstreamText::new(version),
            version if kept_word(name) == *name => UpstreamText::new(version),
            _ => OTHER_WORD.into(),
        };
        let interaction = OracleInteractionLog {
            execution_id: execution_id.to_owned(),
            oracle_id: self.oracle_id.to_string(),
            oracle_version: metadata
                .as_ref()
                .and_then(|answer| answer.oracle_version.as_ref())
                .map_or_else(|| UpstreamText::new(&*requested_version), version_of),
            request_timestamp,
            response_timestamp: metadata.as_ref().map(|_| timestamp),
            latency_ms: u64::try_from(latency.as_millis()).unwrap_or(u64::MAX),
            status: status(&outcome),
            error_code: outcome.as_ref().err().map(|error| error.error_code().into_owned()),
            response_hash: metadata.as_ref().map(|answer| answer.response_hash.clone()),
            cache_hit: false,
            stale_data_used: false,
            path,
            tier: prompt.tier(),
            attempt: number,
            soft_timeout_exceeded: latency > self.policy.soft_timeout,
            prompt_sha256: prompt.sha256().clone(),
            generation: settings.clone(),
            finish_reason: metadata.as_ref().and_then(|answer| answer.finish_reason.as_ref()).map(kept_word),
            usage,
            cost: self.prices.as_ref().zip(usage).and_then(|(prices, usage)| prices.cost_of(&usage)),
        };
        describe(&mut span, &interaction);
        (outcome, interaction, timestamp)
    }
}

/// The wait before the next attempt: at least `pause`, and at least the requested `Retry-After`. `None` if a
/// retry cannot help, if `pause` is `None` because the retries are used up, or if the wait would pass the
/// deadline.
pub fn retry_wait(failure: &RequestFailure, pause: Option<Duration>, left: Duration) -> Option<Duration> {
    let wait = pause?.max(failure.retry_after.unwrap_or_default());
    (failure.is_retryable() && wait < left).then_some(wait)
}

/// Describes an attempt in its span, by the attributes that OpenTelemetry has for models.
fn describe(span: &mut Span, interaction: &OracleInteractionLog) {
    let OracleInteractionLog { generation, usage, tier, path, attempt, error_code, .. } = interaction;
    span.rename(|| format!("chat {}", generation.model));
    span.set("gen_ai.operation.name", "chat");
    span.set_text("gen_ai.request.model", &generation.model);
    span.set_text("oracled.oracle_id", &interaction.oracle_id);
    span.set("oracled.tier", tier.into_str());
    span.set("oracled.path", path.into_str());
    span.set("oracled.attempt", u64::from(*attempt));
    span.set("oracled.status", interaction.status.into_str());
    for (key, tokens) in [
        ("gen_ai.usage.input_tokens", usage.and_then(|usage| usage.prompt_tokens)),
        ("gen_ai.usage.output_tokens", usage.and_then(|usage| usage.output_tokens)),
    ] {
        tokens.into_iter().for_each(|tokens| span.set(key, tokens));
    }
    error_code.iter().for_each(|code| span.fail(code.clone()));
}

fn status(outcome: &Result<ModelAnswer, ModelTextError>) -> InteractionStatus {
    match outcome {
        Ok(_) => InteractionStatus::Success,
        Err(ModelTextError::Failed(RequestFailure { kind: RequestFailureKind::Timeout, .. })) => {
            InteractionStatus::Timeout
        }
        Err(_) => InteractionStatus::Error,
    }
}

impl ModelCallResult {
    fn new(
        outcome: Result<ModelAnswer, ModelTextError>,
        cause: Option<UpstreamText>,
        interactions: Vec<AuditEvent>,
        reached: bool,
        latency_ms: u64,
    ) -> Self {
        let health = match &outcome {
            Ok(_) | Err(ModelTextError::Refused(_)) => ModelHealthEffect::Answered,
            Err(ModelTextError::Failed(failure)) if failure.rejects_caller => ModelHealthEffect::Refused,
            Err(ModelTextError::Failed(failure)) if failure.is_fault_of_upstream() => {
                ModelHealthEffect::Failed
            }
            Err(ModelTextError::Failed(_)) => ModelHealthEffect::Neutral,
        };
        let failure_kind = match &outcome {
            Err(ModelTextError::Failed(failure)) => Some(failure.kind),
            _ => None,
        };
        let outcome = outcome.map_err(ModelError::from);
        Self { outcome, cause, failure_kind, interactions, reached, health, latency_ms }
    }
}

impl From<ModelTextError> for ModelError {
    fn from(miss: ModelTextError) -> Self {
        match miss {
            ModelTextError::Refused(reason) => Self::Refused { reason },
            ModelTextError::Failed(failure) => match (failure.kind, failure.permanent_status()) {
                (RequestFailureKind::Timeout, _) => Self::Timeout { failure: failure.detail },
                (RequestFailureKind::Unreadable | RequestFailureKind::TooLarge, _) => {
                    Self::UnreadableAnswer { failure: failure.to_string(), text: failure.text }
                }
                (_, Some(status)) => {
                    Self::RefusedRequest { status, failure: failure.to_string(), text: failure.text }
                }
                _ => Self::Unavailable {
                    failure: failure.to_string(),
                    text: failure.text,
                    retry_after: failure.retry_after.map(|wait| wait.min(RETRY_AFTER_MAX)),
                },
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(kind: RequestFailureKind, retry_after_s: Option<u64>) -> RequestFailure {
        RequestFailure {
            retry_after: retry_after_s.map(Duration::from_secs),
            ..RequestFailure::new(kind, String::new())
        }
    }

    #[test]
    fn pauses_double_are_jittered_and_end() {
        for _ in 0..100 {
            let pauses: Vec<_> = retry_pauses(3).collect();
            assert_eq!(pauses.len(), 3);
            for (pause, least_ms) in pauses.iter().zip([100, 200, 400]) {
                // a few nanoseconds of tolerance, because the factor is a float
                let (least, most) =
                    (Duration::from_millis(least_ms), Duration::from_millis(2 * least_ms + 1));
                assert!((least..=most).contains(pause), "{pause:?}");
            }
        }
        let drawn: Vec<_> = (0..10).filter_map(|_| retry_pauses(3).next()).collect();
        assert!(drawn.iter().any(|pause| Some(pause) != drawn.first()), "{drawn:?}");
        assert_eq!(retry_pauses(0).count(), 0);
    }

    #[test]
    fn wait_respects_retry_after_and_ends_before_the_deadline() {
        let ms = Duration::from_millis;
        let busy = |retry_after_s| failure(RequestFailureKind::Status(429), retry_after_s);
        for (failure, pause_ms, left_ms, wait_ms) in [
            (busy(None), Some(100), 1000, Some(100)),
            (busy(Some(2)), Some(100), 5000, Some(2000)),
            (busy(Some(0)), Some(100), 5000, Some(100)),
            (busy(Some(5)), Some(100), 5000, None),
            (busy(Some(u64::MAX)), Some(100), 5000, None),
            (busy(None), Some(100), 100, None),
            (busy(Some(1)), None, 5000, None),
            (failure(RequestFailureKind::Status(400), Some(1)), Some(100), 5000, None),
        ] {
            assert_eq!(
                retry_wait(&failure, pause_ms.map(ms), ms(left_ms)),
                wait_ms.map(ms),
                "{failure:?} {pause_ms:?} {left_ms}"
            );
        }
    }
}
