use super::*;
use crate::crosscheck::{UnexpectedFieldHandling, judge_with};
use crate::divergence::{
    DivergenceCheck, OriginalLabel, RegenVariance, RegeneratedVerdict, VARIANCE_THRESHOLD, VARIANCE_WINDOW,
};
use crate::event::{
    CrosscheckEntry, InfrastructureVariance, PolicyApplied, RegenDivergenceCheck, TmmCrosscheck,
    VerdictCached,
};
use crate::flag::Flag;
use crate::generation::GenerationSettings;
use crate::label::{ProductTier, VerdictLabel};
use crate::opinion::{OpenOpinion, OpinionPlan, OrderOpinion};
use crate::policy::{AppliedPolicy, PolicyAction, PolicyCause};
use crate::prompt::VerdictPrompt;
use crate::query::CustomerQuery;
use crate::rules_gate::examine;
use crate::session::{OriginalVerdict, SessionRecord};
use domain_audit::leaf::{EntryAdditions, EntrySalts, entry_text, hide_values};
use domain_audit::replay::MissingInput;
use domain_base::digest::Sha256Hex;
use domain_base::event::{AuditEvent, EventKind, EventSeverity};
use domain_base::gate_path::GatePath;
use domain_base::payload::VerdictPayload;
use domain_base::session_id::SessionId;
use domain_ground::source::OracleTier::Primary;
use domain_rules::event::{RulesEntry, RulesEvaluated};
use domain_rules::{CandidateCheck, FactSet, RuleSettings};
use domain_upstream::upstream_id::UpstreamId;
use domain_verification::event::{
    ReviewEntry, ReviewOpened, SourceAsked, SourceCallEntry, VerificationDecided, VerificationEntry,
};
use domain_verification::{ReviewCase, decide};
use serde_json::json;
use serde_json::value::RawValue;
use support::{answers, inputs, now, workflow};

#[path = "../../../verification/src/tests/support.rs"]
#[allow(dead_code, reason = "these tests use some of the builders")]
mod support;

/// An approved verdict with a member that is cut before it is stored.
const APPROVED: &str = r#"{"verdict":"GREEN","summary":"A sound and simple plan.","mood":1}"#;
const REJECTED: &str = r#"{"verdict":"GREEN"}"#;
const FACT: &str = "a sound and simple plan";

/// The lines of a log, and the stored verdict of its session.
#[derive(Default)]
struct TestLog {
    lines: Vec<String>,
    stored: Option<StoredVerdict>,
}

fn session_id() -> SessionId {
    "cs_1".parse().expect("a valid id")
}

impl TestLog {
    fn add(&mut self, session_id: Option<SessionId>, kind: EventKind) {
        let seq = self.lines.len() as u64 + 1;
        self.lines.push(
            entry_text(
                seq,
                &AuditEvent::new(now(), session_id, kind),
                EntryAdditions::default(),
                &EntrySalts { secret: [7; 16], covers_session_ids: false },
            )
            .line,
        );
    }

    /// Judges a verdict, checks it against a fact, and stores it if it is approved.
    fn submit(&mut self, verdict: &str, original: Option<VerdictLabel>) {
        let (tier, path) = (ProductTier::Quick, GatePath::Submit);
        let query = CustomerQuery::new("Sell honey?".into());
        let judgment = judge_with(UnexpectedFieldHandling::Strip, tier, VerdictPayload::raw(verdict));
        let entry = CrosscheckEntry::of(&judgment, &query, path);
        self.add(Some(session_id()), TmmCrosscheck(entry).into());
        let Ok(approved) = judgment.outcome else { return };
        let check = CandidateCheck { facts: vec![FACT.into()], ..CandidateCheck::default() }
            .with_configured_values(&RuleSettings::default());
        let facts = FactSet::compile(&check.facts);
        let evaluation = examine(approved.clone(), &check, &facts, &RuleSettings::default()).evaluation;
        let entry = RulesEntry::of(&evaluation, Some(path));
        self.add(Some(session_id()), RulesEvaluated(entry).into());
        let (verdict_label, verdict_sha256) = (approved.label(), approved.sha256().clone());
        let evaluation_sha256 = Some(evaluation.sha256.clone());
        let cached = VerdictCached {
            tier,
            verdict_label,
            verdict_sha256,
            path,
            evaluation_sha256: evaluation_sha256.clone(),
        };
        self.add(Some(session_id()), cached.into());
        let mut session = SessionRecord::new(session_id(), tier, query);
        session.check = Some(check.into());
        session.original = original.map(OriginalVerdict::reported);
        if original.is_some() {
            self.compare(session.original.as_ref(), verdict_label, path);
        }
        let verdict = RawValue::from_string(approved.verdict().get().to_owned()).expect("JSON");
        self.stored = Some(StoredVerdict { verdict, evaluation_sha256, session: Some(session) });
    }

    fn compare(&mut self, original: Option<&OriginalVerdict>, label: VerdictLabel, path: GatePath) {
        let prompt = VerdictPrompt { sha256: Sha256Hex::of(b"prompt"), template: None, text: None };
        let settings = GenerationSettings::locked("model".into());
        let original = original.map(|original| OriginalVerdict {
            prompt: Some(prompt.clone()),
            settings: Some(settings.clone()),
            ..original.clone()
        });
        let (tier, prompt, settings) = (ProductTier::Quick, Some(&prompt), Some(&settings));
        let regenerated = RegeneratedVerdict { tier, label, path, prompt, settings };
        let check = DivergenceCheck::of(original.as_ref(), &regenerated);
        self.add(Some(session_id()), RegenDivergenceCheck(check).into());
    }

    fn escalate(&mut self, regens: usize, diverged: usize) {
        let (variance, threshold) = (RegenVariance::of(regens, diverged), VARIANCE_THRESHOLD);
        let level = EventSeverity::Escalation;
        self.add(None, InfrastructureVariance { variance, threshold, level }.into());
    }

    /// Two primary sources disagree, so that a review is opened.
    fn verify(&mut self) {
        let mut inputs = inputs(workflow(&["dose"], &["lab-a", "lab-b"], json!({})), &["dose"], json!({}));
        answers(&mut inputs, "lab-a", Primary, &[("dose", "10")]);
        answers(&mut inputs, "lab-b", Primary, &[("dose", "12")]);
        let envelope = decide(&inputs);
        for call in SourceCallEntry::all(&inputs, &envelope) {
            self.add(None, SourceAsked(call).into());
        }
        let review = ReviewCase::of(&inputs, &envelope).expect("a reviewer decides");
        self.add(None, VerificationDecided(VerificationEntry::of(inputs, &envelope)).into());
        let review_id = review.review_id.clone();
        self.add(None, ReviewOpened(ReviewEntry { review_id, review: Box::new(review) }).into());
    }

    /// A log with each kind of decision.
    fn of_all_kinds() -> Self {
        let mut log = Self::default();
        log.submit(APPROVED, Some(VerdictLabel::Amber));
        log.verify();
        log
    }

    fn replay(&self) -> Vec<ReplayedDecision> {
        let mut replay = DecisionReplay::new(true);
        let mut replayed = Vec::new();
        for line in &self.lines {
            if let Some(entry) = read_decision(line).expect("an entry") {
                let stored = self.stored.as_ref().filter(|_| entry.session_id() == Some(&session_id()));
                replayed.extend(replay.add(&entry, stored));
            }
        }
        replayed.extend(replay.finish());
        replayed
    }

    fn outcomes(&self) -> Vec<(&'static str, ReplayOutcome)> {
        self.replay().into_iter().map(|replayed| (replayed.event, replayed.outcome)).collect()
    }
}

fn hidden(members: &[&str]) -> MissingInput {
    MissingInput::HiddenValues(members.iter().map(|member| (*member).to_owned()).collect())
}

#[test]
fn each_kind_of_decision_is_reproduced_from_its_inputs() {
    let log = TestLog::of_all_kinds();
    let kinds = [
        "tmm_crosscheck",
        "rules_evaluated",
        "verdict_cached",
        "regen_divergence_check",
        "source_asked",
        "source_asked",
        "verification_decided",
        "review_opened",
    ];
    assert_eq!(log.outcomes(), kinds.map(|kind| (kind, ReplayOutcome::Reproduced)));
    let replayed: Vec<_> = log.replay().iter().map(|decision| decision.seq).collect();
    assert_eq!(replayed, [1, 2, 3, 4, 5, 6, 7, 8]);
}

#[test]
fn changed_value_of_each_kind_is_reported_with_its_member() {
    let sha256 = |text: &[u8]| Sha256Hex::of(text).to_string();
    let input = sha256(b"other");
    for (event, from, to, member) in [
        ("tmm_crosscheck", r#""coherence_score":1.0"#, r#""coherence_score":0.99"#, "coherence_score"),
        ("tmm_crosscheck", r#""approved":true"#, r#""approved":false"#, "approved"),
        ("tmm_crosscheck", r#""v_t":2.0"#, r#""v_t":0.0"#, "v_t"),
        ("tmm_crosscheck", r#""v_r":0.0"#, r#""v_r":-1"#, "v_r"),
        ("tmm_crosscheck", r#""verdict_label":"GREEN""#, r#""verdict_label":"RED""#, "verdict_label"),
        ("tmm_crosscheck", r#"["unexpected_field:mood"]"#, r#"["short_summary"]"#, "flags"),
        ("tmm_crosscheck", r#"["unexpected_field:mood"]"#, r#"["gloomy"]"#, "flags"),
        (
            "tmm_crosscheck",
            r#""crosscheck_reason":"pass""#,
            r#""crosscheck_reason":"x""#,
            "crosscheck_reason",
        ),
        (
            "rules_evaluated",
            r#""path":"submit","verdict":"PASS""#,
            r#""path":"submit","verdict":"FAIL""#,
            "verdict",
        ),
        ("rules_evaluated", r#""violations":0"#, r#""violations":1"#, "rules[0].violations"),
        ("rules_evaluated", r#""input_sha256":"INPUT"#, r#""input_sha256":"OTHER"#, "input_sha256"),
        ("verdict_cached", r#""verdict_label":"GREEN""#, r#""verdict_label":"RED""#, "verdict_label"),
        ("regen_divergence_check", r#""minor""#, r#""none""#, "divergence_level"),
        ("regen_divergence_check", r#""skipped":false"#, r#""skipped":true"#, "skipped"),
        ("regen_divergence_check", r#""AMBER""#, r#""RED""#, "divergence_level"),
        ("source_asked", r#""latency_ms":100"#, r#""latency_ms":1"#, "latency_ms"),
        ("source_asked", r#""status":"conflict""#, r#""status":"success""#, "status"),
        ("verification_decided", r#""kind":"human_review""#, r#""kind":"authoritative""#, "kind"),
        (
            "verification_decided",
            r#""contested":true"#,
            r#""contested":false"#,
            "envelope.candidates[0].contested",
        ),
        ("review_opened", r#""opened_at":"2026"#, r#""opened_at":"2025"#, "review.opened_at"),
    ] {
        let mut log = TestLog::of_all_kinds();
        let is_kind = |line: &&mut String| line.contains(&format!("\"event\":\"{event}\""));
        let line = log.lines.iter_mut().find(is_kind).expect("the log has the kind");
        let logged = read_decision(line).expect("an entry").expect("a decision").value("input_sha256");
        let from = from.replace("INPUT", logged.as_str().unwrap_or_default());
        let changed = line.replacen(&from, &to.replace("OTHER", &input), 1);
        assert_ne!(changed, *line, "{event}: {from}");
        *line = changed;
        let different = log.replay().into_iter().find_map(|decision| match decision.outcome {
            ReplayOutcome::Different(differences) => Some((decision.event, differences)),
            _ => None,
        });
        let (found, differences) = different.unwrap_or_else(|| panic!("{event}: {to} is not found"));
        let members: Vec<_> = differences.iter().map(|difference| difference.member.as_str()).collect();
        assert_eq!(found, event, "{to}: {members:?}");
        assert!(members.contains(&member), "{to}: {members:?}");
    }
}

#[test]
fn missing_or_further_call_of_a_source_is_reported() {
    let mut log = TestLog::default();
    log.verify();
    let call = log.lines.remove(0);
    let outcome = &log.outcomes()[1];
    let ("verification_decided", ReplayOutcome::Different(differences)) = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!((differences[0].member.as_str(), &differences[0].computed), ("source_asked", &json!(2)));
    log.lines.splice(0..0, [call.clone(), call]);
    let outcome = &log.outcomes()[0];
    let ("source_asked", ReplayOutcome::Different(differences)) = outcome else { panic!("{outcome:?}") };
    assert_eq!((differences[0].member.as_str(), &differences[0].logged), ("oracle_id", &json!("lab-a")));
}

#[test]
fn rejected_verdict_is_reproduced_in_part_and_text_is_named_as_missing() {
    let mut log = TestLog::default();
    log.submit(REJECTED, None);
    assert_eq!(log.outcomes().len(), 1, "{:?}", log.lines);
    let (_, outcome) = log.outcomes().remove(0);
    assert_eq!(outcome, ReplayOutcome::ReproducedInPart(MissingInput::RejectedText), "{:?}", log.lines);
}

#[test]
fn decisions_without_stored_texts_name_the_missing_input() {
    let mut log = TestLog::of_all_kinds();
    log.stored = None;
    let expected = [
        ReplayOutcome::ReproducedInPart(MissingInput::VerdictText),
        ReplayOutcome::ReproducedInPart(MissingInput::TextAndFacts),
        ReplayOutcome::NotReproducible(MissingInput::VerdictText),
        ReplayOutcome::Reproduced,
    ];
    let outcomes: Vec<_> = log.outcomes().into_iter().take(4).map(|(_, outcome)| outcome).collect();
    assert_eq!(outcomes, expected);
}

#[test]
fn hidden_values_are_named_and_nothing_else_is_lost() {
    let mut log = TestLog::of_all_kinds();
    log.stored = None;
    log.lines = log.lines.iter().map(|line| hide_values(line, |_| true).expect("an entry").into()).collect();
    let digests = ["candidate_sha256", "evaluation_sha256", "facts_sha256", "input_sha256"];
    let decision = hidden(&["envelope", "envelope_sha256", "inputs"]);
    let expected = [
        ReplayOutcome::ReproducedInPart(hidden(&["flags"])),
        ReplayOutcome::ReproducedInPart(hidden(&digests)),
        ReplayOutcome::NotReproducible(MissingInput::VerdictText),
        ReplayOutcome::Reproduced,
        ReplayOutcome::NotReproducible(decision.clone()),
        ReplayOutcome::NotReproducible(decision.clone()),
        ReplayOutcome::NotReproducible(decision),
        ReplayOutcome::NotReproducible(hidden(&["review"])),
    ];
    let outcomes: Vec<_> = log.outcomes().into_iter().map(|(_, outcome)| outcome).collect();
    assert_eq!(outcomes, expected);
    // the score follows from values that are not hidden
    log.lines[0] = log.lines[0].replace(r#""coherence_score":1.0"#, r#""coherence_score":0.9"#);
    assert!(matches!(log.outcomes()[0].1, ReplayOutcome::Different(_)));
}

#[test]
fn policy_causes_must_apply_to_the_judged_verdict() {
    for (causes, is_reproduced) in [
        (vec![PolicyCause::Flag(Flag::UnexpectedField("mood".into()))], true),
        (vec![PolicyCause::CoherenceMin(1.1)], true),
        (vec![PolicyCause::Flag(Flag::VerdictConflict)], false),
        (vec![PolicyCause::CoherenceMin(0.98)], false),
    ] {
        let mut log = TestLog::default();
        log.submit(APPROVED, None);
        log.lines.truncate(1);
        let stored = log.stored.take().expect("it is approved");
        let policy = AppliedPolicy { action: PolicyAction::Refuse, causes };
        let verdict_sha256 = Sha256Hex::of(stored.verdict.get().as_bytes());
        let applied = PolicyApplied { policy, verdict_sha256, path: GatePath::Submit };
        log.add(Some(session_id()), applied.into());
        let outcome = log.outcomes().remove(1).1;
        let missing = ReplayOutcome::ReproducedInPart(MissingInput::Configuration);
        assert_eq!(outcome == missing, is_reproduced, "{outcome:?}");
        assert!(is_reproduced || matches!(outcome, ReplayOutcome::Different(_)), "{outcome:?}");
    }
}

#[test]
fn escalation_follows_from_the_regenerations_before_it() {
    let mut log = TestLog::default();
    let green = OriginalVerdict::reported(VerdictLabel::Green);
    for n in 0..VARIANCE_WINDOW + 1 {
        let label = if n % 2 == 0 { VerdictLabel::Green } else { VerdictLabel::Red };
        log.compare(Some(&green), label, GatePath::Regen);
        match n {
            20 => log.escalate(21, 10),
            100 => log.escalate(100, 50),
            _ => {}
        }
    }
    assert!(log.outcomes().iter().all(|(_, outcome)| *outcome == ReplayOutcome::Reproduced));
    log.escalate(100, 49);
    let unknown = ReplayOutcome::ReproducedInPart(MissingInput::RegenerationOrder);
    assert_eq!(log.outcomes().pop().expect("an outcome").1, unknown);
    for (regens, diverged) in [(100, 5), (19, 10), (0, 0)] {
        log.escalate(regens, diverged);
        let outcome = log.outcomes().pop().expect("an outcome").1;
        assert!(matches!(outcome, ReplayOutcome::Different(_)), "{regens} {diverged}: {outcome:?}");
    }
    let last = log.lines.last_mut().expect("an entry");
    *last = last.replace(r#""rate":0.0"#, r#""rate":0.5"#);
    assert!(matches!(log.outcomes().pop().expect("an outcome").1, ReplayOutcome::Different(_)));
}

#[test]
fn divergence_is_compared_with_the_stored_verdict_and_its_session() {
    let mut log = TestLog::default();
    log.submit(APPROVED, Some(VerdictLabel::Amber));
    let red = Some(OriginalVerdict::reported(VerdictLabel::Red));
    let session = log.stored.as_mut().and_then(|stored| stored.session.as_mut()).expect("a session");
    session.original = red;
    let outcome = log.outcomes().pop().expect("an outcome").1;
    let ReplayOutcome::Different(differences) = outcome else { panic!("{outcome:?}") };
    let computed = json!(OriginalLabel(Some(VerdictLabel::Red)));
    assert_eq!((differences[0].member.as_str(), &differences[0].computed), ("original_verdict", &computed));
}

#[test]
fn evaluation_of_a_delivery_is_compared_with_the_one_that_its_card_shows() {
    let mut log = TestLog::default();
    log.submit(APPROVED, None);
    let stored = log.stored.as_mut().expect("it is approved");
    stored.evaluation_sha256 = Some(Sha256Hex::of(b"another evaluation"));
    let ReplayOutcome::Different(differences) = log.outcomes().remove(2).1 else { panic!("{:?}", log.lines) };
    assert_eq!(differences[0].member, "evaluation_sha256");
    let cached = log.lines.pop().expect("an entry");
    log.lines.push(hide_values(&cached, |_| true).expect("an entry").into());
    let outcome = log.outcomes().remove(2).1;
    assert_eq!(outcome, ReplayOutcome::ReproducedInPart(hidden(&["evaluation_sha256"])));
}

#[test]
fn other_entries_are_not_decisions_and_other_texts_are_errors() {
    let line = r#"{"seq":1,"event":"service_stopped","timestamp":"2026-11-20T10:00:00Z"}"#;
    assert!(read_decision(line).expect("an entry").is_none());
    assert!(read_decision(r#"{"seq":1,"event":"unknown_kind"}"#).expect("an entry").is_none());
    for line in ["", "{}", "[]", r#"{"seq":"1","event":"tmm_crosscheck"}"#] {
        assert!(read_decision(line).is_err(), "{line}");
    }
    let empty = read_decision(r#"{"seq":1,"event":"verification_decided"}"#);
    let empty = empty.expect("an entry").expect("a decision");
    let replayed = DecisionReplay::new(true).add(&empty, None);
    assert!(matches!(replayed[0].outcome, ReplayOutcome::Different(_)), "{replayed:?}");
}

#[test]
fn agreement_and_intervals_follow_from_the_numbers_of_labels() {
    let oracle_id: UpstreamId = "gemini".parse().expect("an id");
    let plan = OpinionPlan { count: 3, agree: 2, models: vec![oracle_id.clone()], holds_disagreed: false };
    let verdict_label = VerdictLabel::Green;
    let opinion = OpenOpinion { oracle_id: oracle_id.clone(), verdict_label, answer: None };
    let tally = plan.tally([&opinion, &opinion]);
    let verdict_sha256 = Sha256Hex::of(b"verdict");
    let mut log = TestLog::default();
    let entry = OrderOpinion { attempt: 2, oracle_id, verdict_label, verdict_sha256, tally };
    log.add(Some(session_id()), entry.into());
    assert_eq!(log.outcomes(), [("order_opinion", ReplayOutcome::Reproduced)]);
    for (from, to, member) in [
        (r#""agreed_label":"GREEN""#, r#""agreed_label":"RED""#, "agreed_label"),
        (r#""agree":2"#, r#""agree":3"#, "agreed_label"),
        (r#""share_min":0.1581"#, r#""share_min":0.2"#, "shares[0].share_min"),
    ] {
        let line = log.lines[0].replace(from, to);
        assert_ne!(line, log.lines[0], "{from}");
        let changed = TestLog { lines: vec![line], stored: None };
        let outcome = changed.outcomes().remove(0).1;
        let ReplayOutcome::Different(differences) = outcome else { panic!("{to}: {outcome:?}") };
        assert_eq!(differences[0].member, member);
    }
}
