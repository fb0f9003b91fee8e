//! The latency matrix: the outcome of a question under each policy, for each behavior of one of its two sources.
//!
//! The expectations follow the wording of RFC-0002, Part II ("Oracle Latency Budgets", "Authority Latency Policy",
//! "Versioned Oracle Logging"). They are compared with all times in the envelope and with the log. The other source, an
//! archive, always answers at once with the same value.

use super::support::*;
use super::upstream::{
    ScriptedCall, ScriptedSourceReply, TestScenario, cache_candidate, cached_answer_time, candidate, live,
    subject_identity, with_scene,
};
use crate::testing::ground::PEER;
use actors_upstream::oracle_health::ApplyCircuitAction;
use actors_verification::source::health_oracle_id;
use domain_base::digest::Sha256Hex;
use domain_ground::value::AxisValue;
use domain_upstream::health::CircuitAction;
use domain_verification::EnvelopeKind::{Authoritative, Blocked, HumanReview, NarrativeOnly, Provisional};
use domain_verification::event::VerificationEntry;
use domain_verification::workflow::EnforcementMode::{Async, Inline, NonAuthoritativeOnly};
use domain_verification::workflow::{BudgetExceededBehavior, EnforcementMode, OracleTimeoutBehavior};
use domain_verification::{
    AnswerFault, AxisReason, CallOutcome, CandidateAnswer, DecisionStage, Envelope, EnvelopeKind,
};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;
use tokio::time::Instant;

const SOFT_MS: u64 = 2_000;
const HARD_MS: u64 = 5_000;
const TOLERANCE_S: u64 = 600;
/// The part of a budget that is reserved for the decision.
const DECIDING_MS: u64 = 20;
/// Below the soft timeout, between the two, above the hard one.
const BUDGETS_MS: [u64; 3] = [1_500, 3_000, 6_000];
const MODES: [EnforcementMode; 3] = [Inline, Async, NonAuthoritativeOnly];
const ON_TIMEOUT: [OracleTimeoutBehavior; 3] = [
    OracleTimeoutBehavior::FailOpenNarrative,
    OracleTimeoutBehavior::FailClosedBlock,
    OracleTimeoutBehavior::ServeStale,
];
const ON_BUDGET: [BudgetExceededBehavior; 3] = [
    BudgetExceededBehavior::Escalate,
    BudgetExceededBehavior::DegradeToNarrative,
    BudgetExceededBehavior::FailClosed,
];
const KEPT: [MatrixCachedAge; 3] =
    [MatrixCachedAge::Nothing, MatrixCachedAge::Tolerated, MatrixCachedAge::TooOld];
const DOES: [MatrixBehavior; 13] = [
    MatrixBehavior::Answers(0),
    MatrixBehavior::Answers(100),
    MatrixBehavior::Answers(SOFT_MS),
    MatrixBehavior::Answers(SOFT_MS + 1),
    MatrixBehavior::Answers(4_000),
    MatrixBehavior::Answers(HARD_MS),
    MatrixBehavior::Answers(HARD_MS + 1),
    MatrixBehavior::Hangs,
    MatrixBehavior::IsDead,
    MatrixBehavior::SignsWrongly,
    MatrixBehavior::SpeaksOfAnother,
    MatrixBehavior::SpeaksForAnother,
    MatrixBehavior::IsAhead,
];

/// The settings of a workflow.
#[derive(Debug, Clone, Copy)]
struct MatrixPolicy {
    on_timeout: OracleTimeoutBehavior,
    mode: EnforcementMode,
    on_budget: BudgetExceededBehavior,
    budget_ms: u64,
}

/// The behavior of the live source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MatrixBehavior {
    /// Answers after this number of milliseconds.
    Answers(u64),
    Hangs,
    IsDead,
    SignsWrongly,
    SpeaksOfAnother,
    SpeaksForAnother,
    IsAhead,
}

/// The age of the cached answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MatrixCachedAge {
    Nothing,
    /// 100 s old.
    Tolerated,
    /// 601 s old.
    TooOld,
}

#[derive(Debug, Clone, Copy)]
struct MatrixCase {
    policy: MatrixPolicy,
    does: MatrixBehavior,
    kept: MatrixCachedAge,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MatrixCallOutcome {
    InTime,
    /// The call is cut off by this limit.
    Slow(&'static str),
    Unreachable,
    /// The answer cannot be trusted, for this reason.
    Poisoned(&'static str),
}

impl MatrixPolicy {
    fn all() -> impl Iterator<Item = Self> {
        let registered = |policy: &Self| {
            // RFC, Enforcement Modes: INLINE is for budgets above the soft timeout; registration refuses others
            policy.mode != Inline || policy.budget_ms >= SOFT_MS
        };
        let all = ON_TIMEOUT.into_iter().flat_map(|on_timeout| {
            MODES.into_iter().flat_map(move |mode| {
                ON_BUDGET.into_iter().flat_map(move |on_budget| {
                    BUDGETS_MS.map(|budget_ms| Self { on_timeout, mode, on_budget, budget_ms })
                })
            })
        });
        all.filter(registered)
    }

    fn settings(&self) -> Json {
        let tolerance_s = (self.on_timeout == OracleTimeoutBehavior::ServeStale).then_some(TOLERANCE_S);
        json!({
            "oracle_latency": {"soft_timeout_ms": SOFT_MS, "hard_timeout_ms": HARD_MS, "on_timeout": self.on_timeout,
                               "stale_tolerance_seconds": tolerance_s},
            "authority_latency": {"authority_latency_budget_ms": self.budget_ms, "enforcement_mode": self.mode,
                                  "on_timeout_behavior": self.on_budget}
        })
    }

    /// RFC, Oracle Latency Budgets: the hard timeout aborts a call. Authority Latency Policy: the budget is
    /// the most that a caller waits for the decision, so that the asking ends a little before it.
    fn limit(&self) -> (u64, &'static str) {
        let budget_ms = self.budget_ms - DECIDING_MS;
        if self.mode == Inline && budget_ms < HARD_MS {
            (budget_ms, "no answer within the budget of the decision")
        } else {
            (HARD_MS, "no answer within its hard timeout")
        }
    }
}

impl MatrixPolicy {
    /// All cases of this policy. If no source is queried, there is one behavior. If no cached answer may be
    /// served, there is one nevertheless.
    fn cases(self) -> impl Iterator<Item = MatrixCase> {
        let kept: &[MatrixCachedAge] = if self.on_timeout == OracleTimeoutBehavior::ServeStale {
            &KEPT
        } else {
            &[MatrixCachedAge::Tolerated]
        };
        let asks = self.mode != NonAuthoritativeOnly;
        let does = DOES.into_iter().take(if asks { DOES.len() } else { 1 });
        does.flat_map(move |does| kept.iter().map(move |kept| MatrixCase { policy: self, does, kept: *kept }))
    }
}

impl MatrixBehavior {
    fn scripted_call(self) -> ScriptedCall {
        const SAYS: ScriptedSourceReply = ScriptedSourceReply::People("54208");
        match self {
            Self::Answers(after_ms) => ScriptedCall::after(after_ms, SAYS),
            Self::Hangs => ScriptedCall::HANGS,
            Self::IsDead => ScriptedCall::DEAD,
            Self::SignsWrongly => {
                ScriptedCall::after(100, ScriptedSourceReply::Refused(AnswerFault::Signature))
            }
            Self::SpeaksOfAnother => ScriptedCall::after(
                100,
                ScriptedSourceReply::Changed("54208", |candidate| {
                    candidate.subject.insert("area".into(), AxisValue::Text("ZZZ".into()));
                }),
            ),
            Self::SpeaksForAnother => ScriptedCall::after(
                100,
                ScriptedSourceReply::Changed("54208", |candidate| {
                    candidate.record.oracle_id = source_id("archive");
                }),
            ),
            Self::IsAhead => ScriptedCall::after(
                100,
                ScriptedSourceReply::Changed("54208", |candidate| {
                    candidate.observed_at += SignedDuration::from_hours(1);
                }),
            ),
        }
    }
}

impl MatrixCase {
    fn call_outcome(&self) -> MatrixCallOutcome {
        let (limit_ms, by) = self.policy.limit();
        match self.does {
            MatrixBehavior::Answers(after_ms) if after_ms <= limit_ms => MatrixCallOutcome::InTime,
            MatrixBehavior::Answers(_) | MatrixBehavior::Hangs => MatrixCallOutcome::Slow(by),
            // RFC, Failure Modes: unavailability is a status of 500 and above
            MatrixBehavior::IsDead => MatrixCallOutcome::Unreachable,
            // RFC, Failure Modes: poisoning is found by signature and schema; Integrity constraints:
            // identities are pinned
            MatrixBehavior::SignsWrongly => MatrixCallOutcome::Poisoned("(signature): not as agreed on"),
            MatrixBehavior::SpeaksOfAnother => {
                MatrixCallOutcome::Poisoned("(identity): it is about another subject than the requested one")
            }
            MatrixBehavior::SpeaksForAnother => MatrixCallOutcome::Poisoned("(identity): it is archive's"),
            MatrixBehavior::IsAhead => MatrixCallOutcome::Poisoned("(schema): 2026-11-20T"),
        }
    }

    fn latency_ms(&self) -> u64 {
        match (self.call_outcome(), self.does) {
            (MatrixCallOutcome::InTime, MatrixBehavior::Answers(after_ms)) => after_ms,
            (MatrixCallOutcome::Slow(_), _) => self.policy.limit().0,
            (MatrixCallOutcome::Unreachable, _) => 0,
            _ => 100,
        }
    }

    /// RFC, Stale Data Policy: cached data within tolerance is used. A cached answer does not replace a refused one.
    fn is_cached_answer_served(&self) -> bool {
        let covers =
            matches!(self.call_outcome(), MatrixCallOutcome::Slow(_) | MatrixCallOutcome::Unreachable);
        covers
            && self.policy.on_timeout == OracleTimeoutBehavior::ServeStale
            && self.kept == MatrixCachedAge::Tolerated
    }

    fn is_missing(&self) -> bool {
        self.call_outcome() != MatrixCallOutcome::InTime && !self.is_cached_answer_served()
    }

    /// The decision that the caller gets, or that the log gets if no caller waits.
    fn decision(&self) -> (EnvelopeKind, Option<AxisReason>) {
        if !self.is_missing() {
            return (Authoritative, None);
        }
        match self.call_outcome() {
            MatrixCallOutcome::Poisoned(_) => (Blocked, Some(AxisReason::OracleUnusable)),
            // RFC, Authority Latency Policy, on_timeout_behavior: the budget ends before the hard timeout
            MatrixCallOutcome::Slow(_) if self.policy.limit().0 < HARD_MS => {
                let kind = match self.policy.on_budget {
                    BudgetExceededBehavior::Escalate => HumanReview,
                    BudgetExceededBehavior::DegradeToNarrative => NarrativeOnly,
                    BudgetExceededBehavior::FailClosed => Blocked,
                };
                (kind, Some(AxisReason::BudgetExceeded))
            }
            // RFC, Timeout Behaviors; SERVE_STALE without a cached answer is like a missing source
            _ => {
                let kind = match self.policy.on_timeout {
                    OracleTimeoutBehavior::FailOpenNarrative => NarrativeOnly,
                    OracleTimeoutBehavior::FailClosedBlock | OracleTimeoutBehavior::ServeStale => Blocked,
                };
                (kind, Some(AxisReason::OracleUnreachable))
            }
        }
    }

    /// The retry guidance: whether a retry helps, and after how many milliseconds.
    fn retry(&self) -> Option<Option<u64>> {
        let (kind, reason) = self.decision();
        // a slow or unreachable source may be back after a hard timeout; an untrusted one needs an administrator
        (kind == Blocked).then(|| (reason != Some(AxisReason::OracleUnusable)).then_some(HARD_MS))
    }

    fn outcome(&self) -> CallOutcome {
        match self.call_outcome() {
            MatrixCallOutcome::InTime => CallOutcome::Answered,
            MatrixCallOutcome::Slow(_) => CallOutcome::TimedOut,
            MatrixCallOutcome::Unreachable => CallOutcome::Failed,
            MatrixCallOutcome::Poisoned(_) => CallOutcome::Refused,
        }
    }

    /// The beginnings of the warnings about the source.
    fn warnings(&self, stored: Option<&CandidateAnswer>) -> Vec<String> {
        let latency_ms = self.latency_ms();
        let first = match self.call_outcome() {
            MatrixCallOutcome::InTime if latency_ms > SOFT_MS => {
                format!("answered late, after {latency_ms} ms; {SOFT_MS} ms are the soft timeout")
            }
            MatrixCallOutcome::InTime => return Vec::new(),
            MatrixCallOutcome::Slow(by) => by.to_owned(),
            MatrixCallOutcome::Unreachable => "unavailable: status 502".to_owned(),
            MatrixCallOutcome::Poisoned(why) => format!("its answer is rejected {why}"),
        };
        let mut warnings = vec![format!("live: {first}")];
        let covers =
            matches!(self.call_outcome(), MatrixCallOutcome::Slow(_) | MatrixCallOutcome::Unreachable);
        if covers && self.policy.on_timeout == OracleTimeoutBehavior::ServeStale {
            let waited_s = latency_ms / 1_000;
            let observed_at = stored.map(|stored| stored.observed_at.to_string()).unwrap_or_default();
            warnings.push(match self.kept {
                MatrixCachedAge::Nothing => "live: no cached answer".to_owned(),
                MatrixCachedAge::Tolerated => format!(
                    "live: its cached answer from {observed_at} is used, {} seconds old; the workflow allows 10 minutes",
                    100 + waited_s
                ),
                MatrixCachedAge::TooOld => format!(
                    "live: its cached answer is from {observed_at}, {} seconds old; the workflow allows 600 seconds",
                    601 + waited_s
                ),
            });
        }
        warnings
    }

    /// RFC, Versioned Oracle Logging: the logged fields of the call.
    fn interaction(&self, asked_at: Timestamp) -> Json {
        let latency_ms = self.latency_ms();
        let ended = asked_at + SignedDuration::from_millis(latency_ms.try_into().expect("the text is short"));
        let (status, code) = match self.call_outcome() {
            MatrixCallOutcome::InTime => ("success", None),
            MatrixCallOutcome::Slow(_) => ("timeout", Some("timed_out")),
            MatrixCallOutcome::Unreachable => ("error", Some("failed")),
            MatrixCallOutcome::Poisoned(_) => ("error", Some("refused")),
        };
        let is_slow = matches!(self.call_outcome(), MatrixCallOutcome::Slow(_));
        // version and hash are known of any answer that could be read, even if it was refused
        let is_read = self.does.scripted_call().after_ms.is_some()
            && !is_slow
            && matches!(
                self.does.scripted_call().reply,
                ScriptedSourceReply::People(_) | ScriptedSourceReply::Changed(..)
            );
        json!({
            "oracle_id": "live",
            "oracle_version": if is_read { "v7" } else { "unknown" },
            "request_timestamp": asked_at,
            "response_timestamp": (!is_slow).then_some(ended),
            "latency_ms": latency_ms,
            "status": status,
            "error_code": code,
            "response_hash": is_read.then(|| Sha256Hex::of(b"54208")),
            "cache_hit": false,
            "stale_data_used": self.is_cached_answer_served(),
            "soft_timeout_exceeded": latency_ms > SOFT_MS,
            "workflow_id": "census",
            "timestamp": ended,
        })
    }
}

/// The subject of a case, which is another one for each.
fn area(number: usize) -> String {
    let letter = |index: usize| char::from(b'A' + u8::try_from(index % 26).expect("less than 26"));
    [letter(number / 676), letter(number / 26), letter(number)].iter().collect()
}

/// Resets the source and its circuit, and caches the answer that the case needs.
async fn prepare(scene: &TestScenario, case: &MatrixCase, area: &str) -> Option<CandidateAnswer> {
    let system = &scene.world.system;
    scene.upstream.set_script("live", &[case.does.scripted_call()]);
    let close = ApplyCircuitAction {
        oracle_id: health_oracle_id(&source_id("live")),
        action: CircuitAction::Close,
        peer: PEER,
    };
    // before its first call the source is unknown
    drop(system.oracle_health.ask(close).await.expect("the actor answers"));
    let age_s = match case.kept {
        MatrixCachedAge::Nothing => return None,
        MatrixCachedAge::Tolerated => 100,
        MatrixCachedAge::TooOld => 601,
    };
    let at = system.clock.now() - SignedDuration::from_secs(age_s);
    let candidate = candidate("live", subject_identity(area), "54208", at);
    cache_candidate(system, area, candidate.clone()).await;
    Some(candidate)
}

/// Checks an envelope without queries: a narrative, or the provisional answer for a pending decision.
fn check_unasked(case: &MatrixCase, envelope: &Envelope) {
    let (kind, reason) = match case.policy.mode {
        // RFC, Binding Rules 3, and Enforcement Modes
        NonAuthoritativeOnly => (NarrativeOnly, AxisReason::NonAuthoritative),
        _ => (Provisional, AxisReason::Deferred),
    };
    assert_eq!((envelope.kind, &envelope.reasons), (kind, &BTreeSet::from([reason])), "{case:?}");
    assert!(envelope.candidates.is_empty() && envelope.warnings.is_empty(), "{case:?}\n{envelope:#?}");
    check_rest(case, envelope, None);
}

/// Checks the rules that apply to each envelope.
fn check_rest(case: &MatrixCase, envelope: &Envelope, retry: Option<Option<u64>>) {
    let reported = envelope.retry.as_ref().map(|retry| retry.after_ms);
    assert_eq!(reported, retry, "{case:?}\n{envelope:#?}");
    if let Some(retry) = &envelope.retry {
        assert_eq!(retry.oracles, [source_id("live")], "{case:?}");
    }
    // RFC, Timeout Behaviors: a narrative has its disclaimer
    assert_eq!(envelope.disclaimer.is_some(), envelope.kind == NarrativeOnly, "{case:?}");
    assert_eq!(envelope.review_id.is_some(), envelope.kind == HumanReview, "{case:?}");
    let is_authoritative = envelope.kind == Authoritative;
    let axis = &envelope.axes["population"];
    let value = axis.value.as_ref().map(ToString::to_string);
    assert_eq!(value.as_deref(), is_authoritative.then_some("54208"), "{case:?}");
    // RFC, Acceptance Criteria 7
    assert_eq!(axis.evidence.len(), if is_authoritative { 2 } else { 0 }, "{case:?}");
    assert!(envelope.steps.is_empty() && envelope.reverify.is_empty(), "{case:?}");
}

/// Checks a decision after the queries.
fn check_decision(
    case: &MatrixCase,
    entry: &VerificationEntry,
    envelope: &Envelope,
    cached: Option<&CandidateAnswer>,
) {
    let shown = || format!("{case:?}\n{envelope:#?}");
    let (kind, reason) = case.decision();
    assert_eq!((envelope.kind, &envelope.reasons), (kind, &reason.into_iter().collect()), "{}", shown());
    check_rest(case, envelope, case.retry());
    let latency_ms = case.latency_ms();
    assert_eq!(entry.inputs.elapsed_ms, latency_ms, "{}", shown());
    let waited = SignedDuration::from_millis(latency_ms.try_into().expect("the text is short"));
    assert_eq!(envelope.decided_at.duration_since(entry.inputs.asked_at), waited, "{}", shown());

    let [live, archive] = &envelope.candidates[..] else { panic!("two sources: {}", shown()) };
    assert_eq!((live.oracle_id.as_str(), live.outcome), ("live", case.outcome()), "{}", shown());
    assert_eq!((live.latency_ms, live.late), (latency_ms, latency_ms > SOFT_MS), "{}", shown());
    let has_values = matches!(kind, Authoritative | HumanReview);
    let stated_by = |is_there: bool| usize::from(is_there && has_values);
    assert_eq!(
        (live.stale, live.values.len()),
        (case.is_cached_answer_served(), stated_by(!case.is_missing())),
        "{}",
        shown()
    );
    // RFC, Stale Data Policy: the original observed_at
    let observed_at = match case.call_outcome() {
        MatrixCallOutcome::InTime => Some(envelope.decided_at),
        _ => cached.filter(|_| case.is_cached_answer_served()).map(|cached| cached.observed_at),
    };
    assert_eq!(live.observed_at, observed_at, "{}", shown());
    let stale: Vec<_> = envelope.axes["population"].evidence.iter().filter(|one| one.stale).collect();
    assert!(stale.iter().all(|one| Some(one.observed_at) == observed_at), "{}", shown());
    assert_eq!(stale.len(), usize::from(case.is_cached_answer_served()), "{}", shown());

    assert_eq!((archive.outcome, archive.latency_ms), (CallOutcome::Answered, 0), "{}", shown());
    assert!(!archive.late && !archive.stale && archive.values.len() == stated_by(true), "{}", shown());

    let warnings = case.warnings(cached);
    assert_eq!(envelope.warnings.len(), warnings.len(), "{}", shown());
    for (message, begins) in envelope.warnings.iter().zip(&warnings) {
        assert!(message.starts_with(begins), "{message} begins with {begins}\n{case:?}");
    }
}

/// Checks the log entries of an execution with queries.
fn check_log(case: &MatrixCase, logged: &[Json], asked_at: Timestamp) {
    let mut events = vec!["source_asked", "source_asked", "verification_decided"];
    events.extend((case.decision().0 == HumanReview).then_some("review_opened"));
    let names: Vec<_> = logged.iter().map(|entry| entry["event"].as_str().expect("its name")).collect();
    assert_eq!(names, events, "{case:?}");
    for (field, value) in case.interaction(asked_at).as_object().expect("fields") {
        assert_eq!(&logged[0][field], value, "`{field}`: {case:?}");
    }
    assert_eq!((&logged[1]["oracle_id"], &logged[1]["status"]), (&json!("archive"), &json!("success")));
}

/// Asks the question of a case, and compares the envelope and the log with the expectations.
async fn check(scene: &TestScenario, case: &MatrixCase, area: &str) {
    let system = &scene.world.system;
    let cached = prepare(scene, case, area).await;
    let (began, asked_at) = (Instant::now(), system.clock.now());
    let envelope =
        verify_population(system, json!({"where": {"area": area, "year": 1960}})).await.expect("an envelope");
    let elapsed_ms = u64::try_from(began.elapsed().as_millis()).expect("the text is short");
    let mut logged = entries(system, &envelope.execution_id);
    let is_inline = case.policy.mode == Inline;
    assert_eq!(elapsed_ms, if is_inline { case.latency_ms() } else { 0 }, "{case:?}");
    if !is_inline {
        check_unasked(case, &envelope);
        assert_eq!(logged.remove(0)["event"], "verification_decided", "{case:?}");
    }
    while case.policy.mode == Async && logged.is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(250)).await;
        logged = entries(system, &envelope.execution_id).split_off(1);
    }
    let decisions = rebuilt(system, &envelope.execution_id);
    let (_, first) = &decisions[0];
    assert_eq!(first.to_json(), envelope.to_json(), "the envelope is rebuilt from the log: {case:?}");
    if case.policy.mode == NonAuthoritativeOnly {
        assert_eq!((decisions.len(), logged.len(), scene.upstream.calls("live")), (1, 0, 0), "{case:?}");
        return;
    }
    let (entry, decided) = decisions.last().expect("the envelope is decided");
    assert_eq!(entry.inputs.stage == DecisionStage::Delayed, case.policy.mode == Async, "{case:?}");
    check_decision(case, entry, decided, cached.as_ref());
    check_log(case, &logged, asked_at);
    assert_eq!(scene.upstream.calls("live"), 1, "{case:?}");
    // an accepted answer is cached; any other leaves the cached answer as it is
    let expected = match case.call_outcome() {
        MatrixCallOutcome::InTime => Some(decided.decided_at),
        _ => cached.map(|cached| cached.observed_at),
    };
    assert_eq!(cached_answer_time(system, area), expected, "{case:?}");
    assert!(system.store.pending_decisions().expect("the read succeeds").is_empty(), "{case:?}");
}

#[test]
fn each_policy_and_upstream_match_the_rules_within_their_time() {
    with_scene(
        |_| {},
        async |scene: TestScenario| {
            let system = &scene.world.system;
            let count = MatrixPolicy::all().flat_map(MatrixPolicy::cases).count();
            // two modes that query sources, with 15 budgets and behaviors; one that does not, with 9
            assert_eq!(count, 15 * 13 * (1 + 1 + 3) + 9 * (1 + 1 + 3));
            live(system, "live", json!({})).await;
            source(system, "archive", json!({})).await;
            let rows: Vec<_> = (0..count).map(|number| format!("Land,{},1960,54208", area(number))).collect();
            let rows: Vec<_> = rows.iter().map(String::as_str).collect();
            ingest_source_rows(system, "archive", "2026-11-01", &rows).await;
            scene.time.start_clock();
            let mut number = 0;
            for policy in MatrixPolicy::all() {
                workflow(system, &["live", "archive"], policy.settings()).await;
                for case in policy.cases() {
                    check(&scene, &case, &area(number)).await;
                    number += 1;
                }
            }
        },
    );
}
