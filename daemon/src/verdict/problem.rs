//! The errors of verdicts and of the outbox.

use crate::platform::problem::{Problem, ProblemCode, by_value};
use actors_upstream::ModelError;
use actors_verdict::cache::VerdictCacheError;
use actors_verdict::crosscheck::GateError;
use actors_verdict::erasure::ErasureError;
use actors_verdict::generation::{GenerationError, PromptError};
use actors_verdict::held_key::HeldKeyError;
use actors_verdict::lookup::LookupError;
use actors_verdict::notifier::OutboxError;
use actors_verdict::orders::OrderChangeError;
use actors_verdict::rate_limiter::CallLimitError;
use domain_base::session_id::SessionId;
use domain_verdict::lookup::LookupOutcome;
use domain_verdict::order::{Order, OrderStopCause};
use domain_verdict::session::SessionMismatch;
use std::fmt::Display;
use std::time::Duration;

/// When to retry after too many orders are open.
const QUEUE_RETRY_AFTER: Duration = Duration::from_secs(60);

impl Problem {
    /// No verdict is cached for the session.
    pub fn verdict_not_cached(session_id: impl Display) -> Self {
        Self::new(ProblemCode::VerdictNotCached, format!("no verdict is cached for session {session_id}"))
    }

    /// The session is not registered, so its verdict cannot be regenerated.
    pub fn session_unknown(session_id: impl Display) -> Self {
        let detail = format!(
            "session {session_id} has no verdict here and is not registered; register it by PUT \
             /v1/sessions/{session_id} with `tier` and `query` (oraclectl register), then read again"
        );
        Self::new(ProblemCode::SessionUnknown, detail)
    }

    /// The session is registered with other data.
    #[must_use]
    pub fn session_mismatch(session_id: &SessionId, mismatch: SessionMismatch) -> Self {
        let detail = format!("session {} is known with another {mismatch}", session_id.local());
        let code = match mismatch {
            SessionMismatch::Owner => ProblemCode::SessionNotOwned,
            _ => ProblemCode::SessionMismatch,
        };
        let mut problem = Self::new(code, detail);
        problem.document.mismatch = Some(mismatch);
        problem
    }

    /// The verdict of `session_id` could not be generated.
    #[must_use]
    pub fn generation_failed(session_id: &SessionId, failed: &GenerationError) -> Self {
        let session_id = session_id.local();
        match failed {
            GenerationError::SessionUnknown => Self::session_unknown(session_id),
            GenerationError::DeliveredAlready => {
                let detail = format!(
                    "the verdict of session {session_id} was delivered, and is no longer stored; GET \
                     /v1/verdicts/{session_id} regenerates it"
                );
                Self::new(ProblemCode::DeliveredAlready, detail)
            }
            GenerationError::Limited(limited @ CallLimitError::Session { wait }) => {
                let wait_s = wait.as_secs_f64().ceil();
                let detail = format!(
                    "the verdict of session {session_id} can be regenerated in {wait_s} s: {limited}"
                );
                Self::new(ProblemCode::RegenRateLimited, detail).retry_after(*wait)
            }
            failed => Self::model_call_failed(failed),
        }
    }

    /// The model could not be asked, or its answer could not be judged.
    #[must_use]
    pub fn model_call_failed(failed: &GenerationError) -> Self {
        let (code, retry_after) = match failed {
            GenerationError::Limited(limited) => {
                let wait = limited.wait();
                let detail = format!("{limited}; try again in {} s", wait.as_secs_f64().ceil());
                return Self::new(ProblemCode::ModelBusy, detail).retry_after(wait);
            }
            GenerationError::QueueFull(_) => (ProblemCode::ModelBusy, Some(QUEUE_RETRY_AFTER)),
            GenerationError::Prompt(PromptError::Store(error)) => return error.into(),
            GenerationError::Prompt(_) => (ProblemCode::PromptUnavailable, None),
            GenerationError::NoModel => (ProblemCode::ModelUnavailable, None),
            GenerationError::NotPermitted { retry_after, .. } => {
                (ProblemCode::ModelUnavailable, Some(*retry_after))
            }
            GenerationError::Model { error, retry_after } => {
                let code = match error {
                    ModelError::Unavailable { .. } | ModelError::UnreadableAnswer { .. } => {
                        ProblemCode::ModelUnavailable
                    }
                    ModelError::Timeout { .. } => ProblemCode::ModelTimeout,
                    ModelError::Refused { .. } => ProblemCode::ModelRefused,
                    ModelError::RefusedRequest { .. } => {
                        let detail = format!(
                            "{error}; check `name`, `base_url` and the key of the model in `[model]` or `[models.NAME]`"
                        );
                        return Self::new(ProblemCode::ModelRefusedRequest, detail);
                    }
                };
                return Self::new(code, error.to_string()).retry_after(*retry_after);
            }
            GenerationError::Store(error) => return error.into(),
            GenerationError::Commit(error) => return error.into(),
            GenerationError::Cache(error) => return error.into(),
            GenerationError::Gate(error) => return error.into(),
            GenerationError::NoAnswer(error) => return (*error).into(),
            GenerationError::SessionUnknown
            | GenerationError::DeliveredAlready
            | GenerationError::Crashed => return Self::new(ProblemCode::InternalError, failed.to_string()),
        };
        Self::new(code, failed.to_string()).retry_after(retry_after)
    }
}

impl Problem {
    /// The unknown session `session_id` could not be registered by a look-up.
    #[must_use]
    pub fn lookup_failed(session_id: &SessionId, failed: &LookupError) -> Self {
        let session_id = session_id.local();
        if failed.is_negative() {
            let detail = format!(
                "session {session_id} is not registered, and its look-up found no session that can be used: {failed}"
            );
            return Self::new(ProblemCode::SessionUnknown, detail);
        }
        let code = match failed {
            LookupError::Cache(error) => return error.into(),
            LookupError::NoAnswer(error) => return (*error).into(),
            LookupError::Call(error) if error.outcome() == LookupOutcome::TimedOut => {
                ProblemCode::LookupTimeout
            }
            LookupError::Call(_) | LookupError::NotPermitted(_) | LookupError::Busy => {
                ProblemCode::LookupUnavailable
            }
        };
        let detail = format!("session {session_id} is not registered, and could not be looked up: {failed}");
        Self::new(code, detail).retry_after(failed.retry_after())
    }

    /// The session has no order.
    #[must_use]
    pub fn order_unknown(session_id: impl Display) -> Self {
        Self::new(ProblemCode::OrderUnknown, format!("session {session_id} has no order"))
    }

    /// The order of the session failed.
    #[must_use]
    pub fn order_failed(session_id: &SessionId, order: &Order) -> Self {
        const RETRY: &str = "an operator can retry the order (`oraclectl order retry`)";
        let (local, attempts) = (session_id.local(), order.attempts);
        let s = if attempts == 1 { "" } else { "s" };
        let last = order.last_attempts.last().and_then(|attempt| attempt.cause.as_ref());
        let last = last.map(|last| format!("; the last attempt: {last}")).unwrap_or_default();
        let cause = order.stop_cause.map_or("failed", |cause| cause.into_str());
        let detail = match order.stop_cause {
            // the operator's reason is not for the application
            Some(OrderStopCause::Operator) => {
                format!("an operator failed the order of session {local}; {RETRY}")
            }
            _ => format!(
                "the order of session {local} failed after {attempts} attempt{s} ({cause}); {RETRY}{last}"
            ),
        };
        Self::new(ProblemCode::OrderFailed, detail)
    }
}

impl Problem {
    /// The application cancelled the order of the session.
    #[must_use]
    pub fn order_cancelled(session_id: &SessionId) -> Self {
        let detail =
            format!("the order of session {} was cancelled; use a new session id", session_id.local());
        Self::new(ProblemCode::OrderCancelled, detail)
    }
}

impl From<OrderChangeError> for Problem {
    fn from(error: OrderChangeError) -> Self {
        match error {
            OrderChangeError::Unknown(session_id) => Self::order_unknown(session_id),
            OrderChangeError::RefusedByPolicy { ref causes, .. } => {
                let mut problem = Self::new(ProblemCode::PolicyRejected, error.to_string());
                problem.document.causes = Some(causes.clone());
                problem
            }
            OrderChangeError::OtherOwner(session_id) => {
                Self::session_mismatch(&session_id, SessionMismatch::Owner)
            }
            OrderChangeError::HeldKey(error) => (&error).into(),
            OrderChangeError::HeldVerdictDamaged(_) => {
                Self::new(ProblemCode::HeldVerdictUnreadable, error.to_string())
            }
            OrderChangeError::State { .. }
            | OrderChangeError::Ended { .. }
            | OrderChangeError::Changed { .. }
            | OrderChangeError::NoHeldVerdict { .. }
            | OrderChangeError::CheckInForce(_) => {
                Self::new(ProblemCode::OrderStateRefused, error.to_string())
            }
            OrderChangeError::Failed(error) => match error {
                GenerationError::Store(error) => error.into(),
                GenerationError::Commit(error) => error.into(),
                GenerationError::Cache(error) => error.into(),
                GenerationError::NoModel => {
                    let detail = "no model is configured, so no other verdict can be generated; release or fail the order, or \
                                  configure `model.provider`";
                    Self::new(ProblemCode::ModelUnavailable, detail)
                }
                other => Self::new(ProblemCode::InternalError, other.to_string()),
            },
        }
    }
}

impl From<&VerdictCacheError> for Problem {
    fn from(error: &VerdictCacheError) -> Self {
        match error {
            VerdictCacheError::Store(error) => error.into(),
            VerdictCacheError::Commit(error) => error.into(),
            VerdictCacheError::HeldKey(error) => error.into(),
        }
    }
}

impl From<&HeldKeyError> for Problem {
    fn from(error: &HeldKeyError) -> Self {
        tracing::error!(%error, "a held verdict cannot be encrypted or decrypted");
        Self::new(ProblemCode::HeldVerdictUnreadable, error.to_string())
    }
}

impl From<&GateError> for Problem {
    fn from(error: &GateError) -> Self {
        match error {
            GateError::Judging(_) => Self::new(ProblemCode::InternalError, error.to_string()),
            GateError::Commit(error) => error.into(),
            GateError::Cache(error) => error.into(),
            GateError::Rules(error) => error.into(),
            GateError::NoAnswer(error) => (*error).into(),
        }
    }
}

impl From<ErasureError> for Problem {
    fn from(error: ErasureError) -> Self {
        let detail = error.to_string();
        match error {
            ErasureError::Store(error) => error.into(),
            ErasureError::Commit(error) => error.into(),
            ErasureError::Cache(error) => error.into(),
            ErasureError::Outbox(error) => error.into(),
            ErasureError::Actor(error) => error.into(),
            ErasureError::InProgress | ErasureError::Incomplete => {
                Self::new(ProblemCode::BackupInProgress, detail)
            }
            ErasureError::Files(_) => Self::new(ProblemCode::InternalError, detail),
        }
    }
}

impl From<OutboxError> for Problem {
    fn from(error: OutboxError) -> Self {
        let detail = error.to_string();
        match error {
            OutboxError::Unknown { .. } => Self::new(ProblemCode::MailUnknown, detail),
            OutboxError::InFlight { .. } => Self::new(ProblemCode::MailInFlight, detail),
            OutboxError::Store(error) => error.into(),
            OutboxError::Commit(error) => error.into(),
        }
    }
}

by_value!(VerdictCacheError, GateError);
