//! The crosscheck: each verdict is judged here before it is delivered.

use crate::audit::logger::{CommitError, Log};
use crate::platform::clock::Clock;
use crate::platform::door::{Door, NoAnswer};
use crate::platform::guardian::panic_message;
use crate::platform::metrics::{JudgedAs, Metrics};
use crate::rules::{Rules, RulesError};
use crate::verdict::cache::{Admit, Cache, CacheError, Refuse};
use crate::verdict::submission::{Made, Submission, SubmissionOutcome};
use actix::{Actor, Context, Handler, Message, ResponseFuture, Supervised};
use oracled_domain::audit::event::{CrosscheckEntry, EventSeverity, RulesEntry};
use oracled_domain::rules::Check;
use oracled_domain::verdict::rules_gate::Examination;
use oracled_domain::{
    Approved, Event, EventKind, GatePath, Judgement, Payload, SessionId, Tier, UnexpectedFields,
};
use oracled_store::Record;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Judges a verdict and, on every path but `check`, delivers it if it passes.
#[derive(Debug, Message)]
#[rtype(result = "Result<SubmissionOutcome, GateError>")]
pub struct Judge(pub Submission);

/// Why a submission has no outcome. Nothing was delivered.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    /// The code that judges panicked.
    #[error("judging failed: {0}")]
    Judging(String),
    /// The log entry, or the verdict, could not be committed.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// The cache could not store the verdict.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The rules could not be applied.
    #[error(transparent)]
    Rules(#[from] RulesError),
    /// The cache did not answer.
    #[error(transparent)]
    NoAnswer(#[from] NoAnswer),
}

/// Judges a payload. Any function fits this type, but only the gate in `domain` can create an approved value.
type JudgeFn = fn(UnexpectedFields, Tier, Payload) -> Judgement;

/// The actor.
#[derive(Debug)]
pub struct Crosscheck {
    judge: JudgeFn,
    unexpected_fields: UnexpectedFields,
    cache: Door<Cache>,
    rules: Rules,
    log: Log,
    clock: Clock,
    metrics: Metrics,
}

impl Crosscheck {
    pub(crate) fn new(
        unexpected_fields: UnexpectedFields,
        (cache, rules): (Door<Cache>, Rules),
        log: Log,
        clock: Clock,
        metrics: Metrics,
    ) -> Self {
        Self { judge: oracled_domain::judge_with, unexpected_fields, cache, rules, log, clock, metrics }
    }
}

/// The steps after a judgement.
struct Delivery {
    cache: Door<Cache>,
    rules: Rules,
    log: Log,
    clock: Clock,
}

impl Delivery {
    async fn deliver(
        self,
        judgement: Judgement,
        judged: Event,
        submission: Submission,
    ) -> Result<SubmissionOutcome, GateError> {
        let Submission { session_id, path, made, check, .. } = &submission;
        let approved = match (*path, judgement.outcome) {
            (GatePath::Check, _) => {
                self.log.commit(judged.into()).await?;
                return Ok(SubmissionOutcome::Checked(judgement.decision));
            }
            (_, Err(_)) => {
                self.log.commit(Made::record(made.as_ref(), [judged])).await?;
                let (decision, retry_after) = (judgement.decision, None);
                return Ok(SubmissionOutcome::RejectedByCrosscheck { decision, retry_after });
            }
            (_, Ok(approved)) => approved,
        };
        let mut judged = vec![judged];
        let (approved, evaluation_sha256) = match check {
            None => (approved, None),
            Some(check) => match self.examine(approved, check, session_id, *path, &mut judged).await {
                Ok(Examination { outcome: Ok(approved), evaluation }) => (approved, Some(evaluation.sha256)),
                Ok(Examination { outcome: Err(_), evaluation }) => {
                    let record = Made::record(made.as_ref(), judged);
                    let (session_id, check) = (session_id.clone(), Arc::clone(check));
                    let refuse = Refuse { session_id, check, record: record.clone() };
                    let refused = self.cache.ask(refuse).await;
                    logged(refused, record, &self.log).await?;
                    let (evaluation, retry_after) = (Arc::new(evaluation), None);
                    return Ok(SubmissionOutcome::RejectedByRules { evaluation, retry_after });
                }
                Err(error) => {
                    judged.push(Event::new(
                        self.clock.now(),
                        session_id.clone(),
                        EventKind::CrosscheckError {
                            path: *path,
                            level: EventSeverity::Error,
                            cause: error.to_string(),
                        },
                    ));
                    self.log.commit(Made::record(made.as_ref(), judged)).await?;
                    return Err(error);
                }
            },
        };
        let record = Made::record(made.as_ref(), judged.clone());
        let admit = Admit { submission, approved, judged, evaluation_sha256 };
        logged(self.cache.ask(admit).await, record, &self.log).await
    }

    /// The second gate: checks the verdict against the rules, and returns it if it passes. The log entry is added to
    /// `judged`.
    async fn examine(
        &self,
        approved: Approved,
        check: &Arc<Check>,
        session_id: &SessionId,
        path: GatePath,
        judged: &mut Vec<Event>,
    ) -> Result<Examination, GateError> {
        let examination = self.rules.examine(approved, Arc::clone(check)).await?;
        let entry = EventKind::RulesEvaluated(RulesEntry::of(&examination.evaluation, Some(path)));
        judged.push(Event::new(self.clock.now(), session_id.clone(), entry));
        Ok(examination)
    }
}

/// Returns the cache's answer. If the cache failed before it committed `record`, the record is committed here, so that each
/// judgement is logged.
async fn logged<T>(
    answer: Result<Result<T, CacheError>, NoAnswer>,
    record: Record,
    log: &Log,
) -> Result<T, GateError> {
    let error = match answer {
        Ok(Ok(answer)) => return Ok(answer),
        // the record contained the entry, and was written to the service log
        Ok(Err(CacheError::Commit(error @ CommitError::Unavailable(_)))) => return Err(error.into()),
        Ok(Err(error)) => error.into(),
        Err(error) => error.into(),
    };
    log.commit(record).await?;
    Err(error)
}

impl Actor for Crosscheck {
    type Context = Context<Self>;
}

impl Supervised for Crosscheck {}

impl Handler<Judge> for Crosscheck {
    type Result = ResponseFuture<Result<SubmissionOutcome, GateError>>;

    fn handle(&mut self, Judge(mut submission): Judge, _: &mut Context<Self>) -> Self::Result {
        // a missing payload is judged as an empty one, which is rejected
        let payload = submission.payload.take().unwrap_or_else(|| Payload::raw(""));
        let judged =
            catch_unwind(AssertUnwindSafe(|| (self.judge)(self.unexpected_fields, submission.tier, payload)));
        let now = self.clock.now();
        let log = self.log.clone();
        let judgement = match judged {
            Ok(judgement) => judgement,
            Err(panic) => {
                let cause = panic_message(&*panic);
                let Submission { session_id, path, made, .. } = submission;
                let error = Event::new(
                    now,
                    session_id,
                    EventKind::CrosscheckError { path, level: EventSeverity::Error, cause: cause.clone() },
                );
                return Box::pin(async move {
                    log.commit(Made::record(made.as_ref(), [error])).await?;
                    Err(GateError::Judging(cause))
                });
            }
        };
        let reason = judgement.decision.crosscheck_reason;
        self.metrics.coherence.observe(judgement.decision.coherence_score.max(0.0));
        self.metrics.judged.get_or_create(&JudgedAs::new(submission.tier, submission.path, reason)).inc();
        let entry = CrosscheckEntry::of(&judgement, &submission.query, submission.path);
        let entry = Event::new(now, submission.session_id.clone(), EventKind::TmmCrosscheck(entry));
        let (cache, rules, clock) = (self.cache.clone(), self.rules.clone(), self.clock.clone());
        Box::pin(Delivery { cache, rules, log, clock }.deliver(judgement, entry, submission))
    }
}

crate::platform::door::asked_through_a_door!(Crosscheck);

#[cfg(test)]
mod tests;
