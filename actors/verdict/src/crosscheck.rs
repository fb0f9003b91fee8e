//! The crosscheck: each verdict is judged here before it is delivered.

use crate::cache::{
    AdmitVerdict, FindSession, FindSessionOutcome, StoreRejectingCheck, VerdictCache, VerdictCacheError,
};
use crate::submission::{GenerationTrace, Submission, SubmissionOutcome};
use actix::{Actor, Context, Handler, Message, ResponseFuture, Supervised};
use actors_audit::logger::{CommitError, LoggerHandle};
use actors_platform::actor_handle::{ActorCallError, ActorHandle};
use actors_platform::clock::Clock;
use actors_platform::guardian::panic_message;
use actors_platform::metrics::{AddMetric, ApplicationLabelValue, MetricLabelValue, init_counters, pairs};
use actors_rules::{EvaluationError, RuleService};
use domain_base::digest::Sha256Hex;
use domain_base::event::{AuditEvent, EventKind, EventSeverity};
use domain_base::gate_path::GatePath;
use domain_base::metric_samples::MetricLabels;
use domain_base::payload::VerdictPayload;
use domain_base::series::{MetricSeries, SeriesMeasure, SeriesUnit};
use domain_base::session_id::{ApplicationName, SessionId};
use domain_rules::CandidateCheck;
use domain_rules::event::{RulesEntry, RulesEvaluated};
use domain_verdict::crosscheck::{
    ApprovedVerdict, CrosscheckDecision, CrosscheckJudgment, CrosscheckReason, UnexpectedFieldHandling,
};
use domain_verdict::event::{CrosscheckEntry, CrosscheckError, TmmCrosscheck};
use domain_verdict::label::ProductTier;
use domain_verdict::policy::DeliveryPolicies;
use domain_verdict::query::CustomerQuery;
use domain_verdict::rules_gate::RulesGateOutcome;
use domain_verdict::tmm::OMEGA;
use oracled_store::JournalRecord;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use strum::VariantArray;

/// Delivers what the session of a submitted verdict already has; otherwise judges the verdict as [`JudgeVerdict`] does.
#[derive(Debug, Message)]
#[rtype(result = "Result<SubmissionOutcome, GateError>")]
pub struct DeliverVerdict(pub Submission);

/// Judges a verdict and, on every path but `check`, delivers it if it passes.
#[derive(Debug, Message)]
#[rtype(result = "Result<SubmissionOutcome, GateError>")]
pub struct JudgeVerdict(pub Submission);

/// Judges the answer of a model to a prompt that is tried. The verdict is neither stored nor delivered.
#[derive(Debug, Message)]
#[rtype(result = "Result<CrosscheckDecision, GateError>")]
pub struct JudgeTrial {
    pub tier: ProductTier,
    pub query: CustomerQuery,
    pub payload: VerdictPayload,
    /// The log entries of the model's calls, which are committed with that of the decision.
    pub record: JournalRecord,
}

/// Why a submission has no outcome. Nothing was delivered.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    /// The code that judges panicked.
    #[error("could not judge the verdict: {0}")]
    Judging(String),
    /// The log entry, or the verdict, could not be committed.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// The cache could not store the verdict.
    #[error(transparent)]
    Cache(#[from] VerdictCacheError),
    /// The rules could not be applied.
    #[error(transparent)]
    Rules(#[from] EvaluationError),
    /// The cache did not answer.
    #[error(transparent)]
    NoAnswer(#[from] ActorCallError),
}

/// Judges a payload. Any function fits this type, but only the gate in `domain` can create an approved value.
type JudgeFn = fn(UnexpectedFieldHandling, ProductTier, VerdictPayload) -> CrosscheckJudgment;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct JudgmentLabels {
    application: ApplicationLabelValue,
    tier: MetricLabelValue,
    path: MetricLabelValue,
    reason: MetricLabelValue,
}

impl JudgmentLabels {
    const fn new(
        application: ApplicationName,
        tier: ProductTier,
        path: GatePath,
        reason: CrosscheckReason,
    ) -> Self {
        Self {
            application: ApplicationLabelValue(application),
            tier: MetricLabelValue(tier.into_str()),
            path: MetricLabelValue(path.into_str()),
            reason: MetricLabelValue(reason.into_str()),
        }
    }
}

/// Whether a judgment is of a first verdict that is to be delivered.
fn is_first_verdict(labels: &MetricLabels) -> bool {
    let paths = [GatePath::Submit, GatePath::Generate, GatePath::CacheWrite];
    paths.iter().any(|path| labels.is("path", path.into_str()))
}

fn is_approved(labels: &MetricLabels) -> bool {
    labels.is("reason", CrosscheckReason::Pass.into_str())
}

/// The series of judgments of first verdicts.
pub const SERIES: &[MetricSeries] = &[
    MetricSeries {
        name: "verdicts_approved",
        title: "Approved verdicts",
        unit: SeriesUnit::PerMinute,
        metric: "crosscheck_judgments_total",
        filter: |labels| is_first_verdict(labels) && is_approved(labels),
        by: Some("tier"),
        measure: SeriesMeasure::RatePerMinute,
    },
    MetricSeries {
        name: "verdicts_rejected",
        title: "Rejected verdicts",
        unit: SeriesUnit::PerMinute,
        metric: "crosscheck_judgments_total",
        filter: |labels| is_first_verdict(labels) && !is_approved(labels),
        by: Some("tier"),
        measure: SeriesMeasure::RatePerMinute,
    },
    MetricSeries {
        name: "approval",
        title: "Approved part of the verdicts",
        unit: SeriesUnit::Ratio,
        metric: "crosscheck_judgments_total",
        filter: is_first_verdict,
        by: Some("tier"),
        measure: SeriesMeasure::Share(is_approved),
    },
];

/// The metrics of judgments.
#[derive(Debug, Clone)]
pub struct CrosscheckMetrics {
    judged: Family<JudgmentLabels, Counter>,
    coherence: Histogram,
}

impl CrosscheckMetrics {
    /// The metrics of verdicts of `applications`. Others are added with their first verdict.
    pub fn register(registry: &mut Registry, applications: &[ApplicationName]) -> Self {
        let paths: Vec<_> = pairs(&ProductTier::ALL, GatePath::VARIANTS).collect();
        let judged: Vec<_> = pairs(applications, &paths).collect();
        let judged = pairs(&judged, CrosscheckReason::VARIANTS)
            .map(|((name, (tier, path)), reason)| JudgmentLabels::new(name, tier, path, reason));
        Self {
            judged: registry.add(
                "crosscheck_judgments",
                "verdicts judged, by application, tier, path and reason",
                init_counters(judged),
            ),
            coherence: registry.add(
                "coherence",
                "coherence of the verdicts judged, a negative one as 0",
                Histogram::new([0.0, 0.25, 0.5, 0.75, 0.9, OMEGA, 0.99, 1.0]),
            ),
        }
    }
}

#[derive(Debug, Clone)]
pub struct CrosscheckActor {
    pub judge: JudgeFn,
    unexpected_fields: UnexpectedFieldHandling,
    policies: Arc<DeliveryPolicies>,
    cache: ActorHandle<VerdictCache>,
    rules: RuleService,
    log: LoggerHandle,
    clock: Clock,
    metrics: CrosscheckMetrics,
}

impl CrosscheckActor {
    pub fn new(
        (unexpected_fields, policies): (UnexpectedFieldHandling, Arc<DeliveryPolicies>),
        (cache, rules): (ActorHandle<VerdictCache>, RuleService),
        log: LoggerHandle,
        clock: Clock,
        metrics: CrosscheckMetrics,
    ) -> Self {
        let judge = domain_verdict::crosscheck::judge_with;
        Self { judge, unexpected_fields, policies, cache, rules, log, clock, metrics }
    }

    /// Judges and counts a verdict. Returns the judgment or the cause of a panic, with its log entry.
    fn judge(
        &self,
        application: ApplicationName,
        tier: ProductTier,
        query: &CustomerQuery,
        path: GatePath,
        payload: VerdictPayload,
    ) -> (Result<CrosscheckJudgment, String>, EventKind) {
        match catch_unwind(AssertUnwindSafe(|| (self.judge)(self.unexpected_fields, tier, payload))) {
            Ok(judgment) => {
                let CrosscheckDecision { coherence_score, crosscheck_reason, .. } = &judgment.decision;
                let labels = JudgmentLabels::new(application, tier, path, *crosscheck_reason);
                self.metrics.judged.get_or_create(&labels).inc();
                self.metrics.coherence.observe(coherence_score.max(0.0));
                let entry = TmmCrosscheck(CrosscheckEntry::of(&judgment, query, path));
                (Ok(judgment), entry.into())
            }
            Err(panic) => {
                let cause = panic_message(&*panic);
                let level = EventSeverity::Error;
                (Err(cause.clone()), CrosscheckError { path, level, cause }.into())
            }
        }
    }
}

/// The steps of a submission.
impl CrosscheckActor {
    /// Delivers the verdict of the session of `submission`, or judges the submitted one.
    async fn deliver_or_judge(self, mut submission: Submission) -> Result<SubmissionOutcome, GateError> {
        let payload = submission.payload.take();
        Ok(match self.cache.ask(FindSession(submission.clone())).await?? {
            FindSessionOutcome::Cached(cached) => SubmissionOutcome::Replayed(cached),
            FindSessionOutcome::Mismatch(what) => SubmissionOutcome::Mismatch(what),
            FindSessionOutcome::Held => SubmissionOutcome::Held,
            FindSessionOutcome::Cancelled => SubmissionOutcome::Cancelled,
            FindSessionOutcome::Nothing(check) => {
                // a verdict that replaces a lost one must pass the same gate as the first one
                let check = submission.check.take().or(check);
                return self.judge_and_deliver(Submission { payload, check, ..submission }).await;
            }
        })
    }

    async fn judge_and_deliver(self, mut submission: Submission) -> Result<SubmissionOutcome, GateError> {
        // a missing payload is judged as an empty one, which is rejected
        let payload = submission.payload.take().unwrap_or_else(|| VerdictPayload::raw(""));
        let Submission { session_id, tier, query, path, generation_trace, .. } = &submission;
        let (judged, entry) = self.judge(session_id.application(), *tier, query, *path, payload);
        let entry = AuditEvent::new(self.clock.now(), session_id.clone(), entry);
        match judged {
            Ok(judgment) => self.deliver(judgment, entry, submission).await,
            Err(cause) => {
                self.log.commit(GenerationTrace::record(generation_trace.as_ref(), [entry])).await?;
                Err(GateError::Judging(cause))
            }
        }
    }

    async fn deliver(
        &self,
        judgment: CrosscheckJudgment,
        judged: AuditEvent,
        mut submission: Submission,
    ) -> Result<SubmissionOutcome, GateError> {
        let generation_trace = submission.generation_trace.as_ref();
        let mut approved = match (submission.path, judgment.outcome) {
            (GatePath::Check, _) => {
                self.log.commit(judged.into()).await?;
                return Ok(SubmissionOutcome::Checked(judgment.decision));
            }
            (_, Err(_)) => {
                self.log.commit(GenerationTrace::record(generation_trace, [judged])).await?;
                let (decision, retry_after) = (judgment.decision, None);
                return Ok(SubmissionOutcome::RejectedByCrosscheck { decision, retry_after });
            }
            (_, Ok(approved)) => approved,
        };
        let mut judged = vec![judged];
        loop {
            // the first check of an order stays in force, so a check comes at most once: when the rules refuse a verdict of a
            // session without one
            let may_get_check = submission.check.is_none() && submission.path == GatePath::Generate;
            let given = may_get_check.then(|| (approved.clone(), submission.clone()));
            let (passed, evaluation_sha256) =
                match self.pass_rules(approved, &submission, &mut judged).await? {
                    Ok(passed) => passed,
                    Err(refused) => return Ok(refused),
                };
            let record = GenerationTrace::record(submission.generation_trace.as_ref(), judged.clone());
            let given = given.map(|(approved, submission)| (approved, submission, judged.clone()));
            let admit =
                AdmitVerdict { submission, approved: passed, judged, evaluation_sha256, release: None };
            let admitted = self.cache.ask(admit).await;
            // an answer of the model is paid for, so it is judged again if the check of its session has changed
            let is_stale = matches!(&admitted, Ok(Err(VerdictCacheError::Commit(CommitError::Stale(_)))));
            if is_stale
                && let Some(given) = given
                && let Some(check) = self.check_in_force(&given.1).await
            {
                (approved, submission, judged) = given;
                submission.check = Some(check);
                continue;
            }
            return commit_unless_committed(admitted, record, &self.log).await;
        }
    }

    /// The check in force for the session of `submission`.
    async fn check_in_force(&self, submission: &Submission) -> Option<Arc<CandidateCheck>> {
        match self.cache.ask(FindSession(submission.clone())).await {
            Ok(Ok(FindSessionOutcome::Nothing(check))) => check,
            _ => None,
        }
    }

    /// The second gate, if the session or the policy requires rules: the verdict and the SHA-256 of its evaluation, or its
    /// refusal, which is logged.
    async fn pass_rules(
        &self,
        approved: ApprovedVerdict,
        submission: &Submission,
        judged: &mut Vec<AuditEvent>,
    ) -> Result<Result<(ApprovedVerdict, Option<Sha256Hex>), SubmissionOutcome>, GateError> {
        let Submission { session_id, path, generation_trace, check, .. } = submission;
        let policy = self.policies.find(session_id.application(), submission.tier);
        let required = policy.map(|policy| policy.rules.as_slice()).unwrap_or_default();
        let applied = CandidateCheck::with_required(check.as_ref(), required, self.rules.settings());
        let Some(applied) = applied else {
            return Ok(Ok((approved, None)));
        };
        match self.examine(approved, &applied, session_id, *path, judged).await {
            Ok(RulesGateOutcome { outcome: Ok(approved), evaluation }) => {
                // a verdict that was checked without facts does not count as checked against facts
                Ok(Ok((approved, check.is_some().then_some(evaluation.sha256))))
            }
            Ok(RulesGateOutcome { outcome: Err(rejection), evaluation }) => {
                let record = GenerationTrace::record(generation_trace.as_ref(), judged.clone());
                match check.clone() {
                    None => drop(self.log.commit(record).await?),
                    Some(check) => {
                        let refuse = StoreRejectingCheck {
                            session_id: session_id.clone(),
                            check,
                            may_be_new: !matches!(path, GatePath::Generate | GatePath::Regen),
                            record: record.clone(),
                        };
                        let refused = self.cache.ask(refuse).await;
                        commit_unless_committed(refused, record, &self.log).await?;
                    }
                }
                let (evaluation, retry_after) = (Arc::new(evaluation), None);
                Ok(Err(SubmissionOutcome::RejectedByRules { evaluation, rejection, retry_after }))
            }
            Err(error) => {
                judged.push(AuditEvent::new(
                    self.clock.now(),
                    session_id.clone(),
                    CrosscheckError { path: *path, level: EventSeverity::Error, cause: error.to_string() },
                ));
                self.log.commit(GenerationTrace::record(generation_trace.as_ref(), judged.clone())).await?;
                Err(error)
            }
        }
    }

    /// Checks the verdict against the rules, and returns it if it passes. The log entry is added to
    /// `judged`.
    async fn examine(
        &self,
        approved: ApprovedVerdict,
        check: &Arc<CandidateCheck>,
        session_id: &SessionId,
        path: GatePath,
        judged: &mut Vec<AuditEvent>,
    ) -> Result<RulesGateOutcome, GateError> {
        let examination = self.rules.examine(approved, Arc::clone(check)).await?;
        let entry = RulesEvaluated(RulesEntry::of(&examination.evaluation, Some(path)));
        judged.push(AuditEvent::new(self.clock.now(), session_id.clone(), entry));
        Ok(examination)
    }
}

/// Returns the cache's answer. If the cache failed before it committed `record`, the record is committed
/// here, so that each judgment is logged.
pub async fn commit_unless_committed<T>(
    answer: Result<Result<T, VerdictCacheError>, ActorCallError>,
    record: JournalRecord,
    log: &LoggerHandle,
) -> Result<T, GateError> {
    let error = match answer {
        Ok(Ok(answer)) => return Ok(answer),
        // the record contained the entry, and was written to the service log
        Ok(Err(VerdictCacheError::Commit(error @ CommitError::Unavailable(_)))) => return Err(error.into()),
        Ok(Err(error)) => error.into(),
        Err(error) => error.into(),
    };
    log.commit(record).await?;
    Err(error)
}

impl Actor for CrosscheckActor {
    type Context = Context<Self>;
}

impl Supervised for CrosscheckActor {}

impl Handler<DeliverVerdict> for CrosscheckActor {
    type Result = ResponseFuture<Result<SubmissionOutcome, GateError>>;

    fn handle(&mut self, DeliverVerdict(submission): DeliverVerdict, _: &mut Context<Self>) -> Self::Result {
        Box::pin(self.clone().deliver_or_judge(submission))
    }
}

impl Handler<JudgeVerdict> for CrosscheckActor {
    type Result = ResponseFuture<Result<SubmissionOutcome, GateError>>;

    fn handle(&mut self, JudgeVerdict(submission): JudgeVerdict, _: &mut Context<Self>) -> Self::Result {
        Box::pin(self.clone().judge_and_deliver(submission))
    }
}

impl Handler<JudgeTrial> for CrosscheckActor {
    type Result = ResponseFuture<Result<CrosscheckDecision, GateError>>;

    fn handle(&mut self, message: JudgeTrial, _: &mut Context<Self>) -> Self::Result {
        let JudgeTrial { tier, query, payload, mut record } = message;
        let (judged, entry) = self.judge(ApplicationName::default(), tier, &query, GatePath::Try, payload);
        record.events.push(AuditEvent::new(self.clock.now(), None, entry));
        let log = self.log.clone();
        Box::pin(async move {
            log.commit(record).await?;
            Ok(judged.map_err(GateError::Judging)?.decision)
        })
    }
}

actors_platform::handle_actor_calls!(CrosscheckActor);
