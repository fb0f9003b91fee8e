use super::*;
use domain_audit::event::{
    BackupEntry, BackupTaken, ControlAction, DueData, DueKind, ErasureEndEntry, ErasureStartEntry,
    ErasureStarted, LogKeyReplaced, LostRow, MirrorRepaired, OperatorRead, ReadSubject, RetentionApplied,
    RetentionEndEntry, RetentionStartEntry, RetentionStarted, ServiceStarted, ServiceStopped, SessionErased,
    SessionExpiryEntry, SessionsExpired, StorageRecovered, StoreUpgraded,
};
use domain_audit::leaf::{EntryAdditions, EntrySalts, EntryText, entry_text, hidden_members, leaf_of};
use domain_base::caller::PeerCredentials;
use domain_base::digest::Sha256Hex;
use domain_base::event::{Event, EventKind, EventSeverity, event_in};
use domain_base::gate_path::GatePath;
use domain_base::payload::VerdictPayload;
use domain_base::row::ErasedData;
use domain_rules::event::{RulesEntry, RulesEvaluated};
use domain_rules::{CandidateCheck, CandidateText, FactSet, RuleId, RuleSettings, RulesEvaluation, evaluate};
use domain_upstream::event::{InteractionStatus, OracleHealthChanged};
use domain_upstream::health::OracleHealthLevel;
use domain_verdict::cost::{ModelCost, day_of};
use domain_verdict::crosscheck::judge;
use domain_verdict::divergence::{DivergenceCheck, OriginalLabel, RegenVariance, RegeneratedVerdict};
use domain_verdict::event::{
    CrosscheckEntry, CrosscheckError, DailyBudgetReached, HeldVerdictRead, InfrastructureVariance,
    MessageDropped, MessageFailed, MessageQueued, MessageRequeued, MessageSent, OracleInteraction,
    OrderAttemptFailed, OrderAttempted, OrderCancelled, OrderDelivered, OrderPlaced, OrderReleased,
    OrderRetried, OrderStopped, PolicyApplied, RegenAttempted, RegenDivergenceCheck, RegenFailed,
    RejectingCheckDropped, SessionAddressChanged, SessionCorrected, SessionExported, SessionLookedUp,
    SessionRegistered, SessionRemoved, TmmCrosscheck, ValueChange, VerdictCached, VerdictPurged,
};
use domain_verdict::flag::Flag;
use domain_verdict::generation::{GenerationOutcome, GenerationSettings, ModelTokenUsage, VerdictGeneration};
use domain_verdict::interaction::OracleInteractionLog;
use domain_verdict::label::{ProductTier, VerdictLabel};
use domain_verdict::legal_hold::{ErasureRefused, LegalHoldPlaced, LegalHoldReleased};
use domain_verdict::lookup::{LookupEntry, LookupOutcome};
use domain_verdict::mail::{MailId, MailKind};
use domain_verdict::opinion::{OpenOpinion, OpinionPlan, OpinionTally, OrderOpinion};
use domain_verdict::order::{OrderState, OrderStopCause};
use domain_verdict::outbox::{MessageEntry, MessageKind, MessageState};
use domain_verdict::policy::{AppliedPolicy, PolicyAction, PolicyCause};
use domain_verdict::query::CustomerQuery;
use domain_verdict::recall::{RecallResult, RunRecalled, VerdictRecalled};
use domain_verdict::recall_notice::{
    RecallNoticeDiscarded, RecallNoticeRead, RecallNoticeReleased, RecallNoticeWithdrawn,
};
use domain_verdict::rejection::{AnswerRejection, RejectingRule};
use domain_verdict::webhook::{
    EndpointFailed, EndpointPaused, EndpointResumed, OutboxWebhook, WebhookAnswer, WebhookId,
    WebhookReceiver, WebhookType,
};
use domain_verification::event::VerificationDecided;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Kinds of different types.
macro_rules! kinds {
    ($($event:expr),* $(,)?) => { vec![$(EventKind::from($event)),*] };
}

fn entry(verdict: &str) -> AuditEvent {
    let judgment = judge(ProductTier::Quick, VerdictPayload::raw(verdict));
    let query = CustomerQuery::new("Sell honey?".into());
    let at = "2026-11-20T10:00:00Z".parse().expect("a valid time");
    let session_id: SessionId = "cs_1".parse().expect("a valid id");
    let entry = CrosscheckEntry::of(&judgment, &query, GatePath::Check);
    AuditEvent::new(at, session_id, TmmCrosscheck(entry))
}

#[test]
fn crosscheck_entry_has_the_field_names_of_the_seed() {
    let event = entry(r#"{"verdict":"GREEN","summary":"A sound and simple plan."}"#);
    assert_eq!(
        serde_json::to_string(&event).expect("the value serializes"),
        concat!(
            r#"{"event":"tmm_crosscheck","tier":"quick","query_preview":"Sell honey?","#,
            r#""verdict_label":"GREEN","coherence_score":1.0,"threshold":0.9740425724725061,"phi":0.042,"#,
            r#""approved":true,"flags":[],"crosscheck_reason":"pass","#,
            r#""v_t":2.0,"v_r":0.0,"e_d":0.0,"path":"check","#,
            r#""verdict_sha256":"7e5fed0f1060b24767a4b68fae44353b85d70e0536da287fb770a20834224b30","#,
            r#""session_id":"cs_1","timestamp":"2026-11-20T10:00:00Z"}"#,
        )
    );
}

#[test]
fn crosscheck_entry_omits_the_text_of_a_rejected_verdict() {
    let line = serde_json::to_string(&entry("my secret verdict")).expect("the value serializes");
    assert!(!line.contains("secret"), "{line}");
    assert!(line.contains(Sha256Hex::of(b"my secret verdict").as_str()), "{line}");
}

fn interaction(session_id: &SessionId, at: Timestamp) -> AuditEvent {
    AuditEvent::new(
        at,
        session_id.clone(),
        OracleInteraction(Box::new(OracleInteractionLog {
            execution_id: "regen:cs_1:1".into(),
            oracle_id: "gemini".into(),
            oracle_version: "v1beta/model".into(),
            request_timestamp: at,
            response_timestamp: Some(at),
            latency_ms: 812,
            status: InteractionStatus::Success,
            error_code: None,
            response_hash: Some(Sha256Hex::of(b"{}")),
            cache_hit: false,
            stale_data_used: false,
            path: GatePath::Regen,
            tier: ProductTier::Quick,
            attempt: 1,
            soft_timeout_exceeded: false,
            prompt_sha256: Sha256Hex::of(b"prompt"),
            generation: GenerationSettings::locked("model".into()),
            finish_reason: Some("STOP".into()),
            usage: Some(ModelTokenUsage {
                prompt_tokens: Some(1),
                output_tokens: None,
                thinking_tokens: None,
                total_tokens: Some(2),
            }),
            cost: Some(ModelCost { amount: "0.0003".parse().expect("a number"), currency: "USD".into() }),
        })),
    )
}

fn evaluation() -> RulesEvaluation {
    let mut check = CandidateCheck { facts: vec!["a known fact".into()], ..CandidateCheck::default() };
    check.expected.must_find = vec!["secret pattern".into(), " ".into()];
    let candidate = CandidateText::text("A secret text.");
    evaluate(&candidate, &check, &FactSet::compile(&check.facts), &RuleSettings::default())
}

#[test]
fn rules_entry_has_the_result_of_each_rule_and_no_text() {
    let at = "2026-11-20T10:00:00Z".parse().expect("a valid time");
    let session_id: SessionId = "cs_1".parse().expect("a valid id");
    let entry = RulesEntry::of(&evaluation(), Some(GatePath::Submit));
    let event = AuditEvent::new(at, session_id, RulesEvaluated(entry));
    let line = serde_json::to_string(&event).expect("the value serializes");
    for message in [
        r#""path":"submit","verdict":"FAIL","rules":[{"rule":"RULE-PREC-001","verdict":"FAIL","violations":1},"#,
        r#"{"rule":"RULE-PREC-002","verdict":"ERROR","violations":0,"cause":"`must_find[1]` is blank"#,
        evaluation().sha256.as_str(),
        evaluation().facts_sha256.as_str(),
    ] {
        assert!(line.contains(message), "{line}");
    }
    for text in ["secret", "known"] {
        assert!(!line.contains(text), "{line}");
    }
}

fn session_events(session_id: &SessionId, peer: PeerCredentials, timestamp: Timestamp) -> Vec<AuditEvent> {
    let look_up = LookupEntry {
        oracle_id: "lookup".parse().expect("a valid id"),
        request_timestamp: timestamp,
        response_timestamp: Some(timestamp),
        latency_ms: 2,
        status: InteractionStatus::Success,
        outcome: LookupOutcome::Found,
        error_code: None,
        response_hash: Some(Sha256Hex::of(b"answer")),
    };
    vec![
        AuditEvent::new(timestamp, session_id.clone(), SessionLookedUp(look_up)),
        AuditEvent::new(
            timestamp,
            session_id.clone(),
            SessionRegistered {
                tier: ProductTier::Full,
                query_preview: "Sell honey?".into(),
                original_verdict: OriginalLabel(None),
                has_email: true,
            },
        ),
        AuditEvent::new(
            timestamp,
            session_id.clone(),
            SessionAddressChanged { before: None, after: Some(Sha256Hex::of(b"x")) },
        ),
        AuditEvent::new(
            timestamp,
            session_id.clone(),
            SessionCorrected {
                original_verdict: ValueChange { before: OriginalLabel(None), after: OriginalLabel(None) },
                address_changed: false,
                owner_uid: Some(1001),
                peer,
            },
        ),
        AuditEvent::new(timestamp, session_id.clone(), SessionExported { peer }),
        AuditEvent::new(
            timestamp,
            session_id.clone(),
            OperatorRead { subject: ReadSubject::Log, parameters: Some("event=tmm_crosscheck".into()) },
        ),
        AuditEvent::new(
            timestamp,
            session_id.clone(),
            SessionRemoved { verdict_sha256: Some(Sha256Hex::of(b"x")), peer },
        ),
        AuditEvent::new(timestamp, session_id.clone(), LegalHoldPlaced { reason: "case 17".into(), peer }),
        AuditEvent::new(timestamp, session_id.clone(), LegalHoldReleased { reason: "closed".into(), peer }),
        AuditEvent::new(timestamp, session_id.clone(), ErasureRefused { reason: "asked".into(), peer }),
    ]
}

fn message_events(session_id: &SessionId, peer: PeerCredentials, timestamp: Timestamp) -> Vec<AuditEvent> {
    let data = serde_json::json!({ "session_id": session_id });
    let application = Some(session_id.application());
    let receiver = WebhookReceiver { application, endpoint: Some("crm".parse().expect("a valid id")) };
    let id = WebhookId::new(timestamp, 7);
    let webhook =
        OutboxWebhook::queued(id, WebhookType::OrderDelivered, receiver.clone(), None, &data, timestamp);
    let webhook = MessageState::Webhook(webhook.state).entry();
    let mail = MessageEntry {
        message_id: MailId::verdict(session_id).into(),
        kind: MessageKind::Mail(MailKind::Verdict),
        application: None,
        endpoint: None,
    };
    let answered = |status| Some(WebhookAnswer { status, latency_ms: 12 });
    let kinds = [(mail, None, None), (webhook, answered(204), answered(502))];
    let kinds = kinds.map(|(message, accepted, refused)| {
        let failed = MessageFailed {
            message: message.clone(),
            attempt: 1,
            answer: refused,
            cause: "status 502".into(),
            next_attempt_at: None,
        };
        kinds![
            MessageQueued(message.clone()),
            MessageSent { message: message.clone(), attempt: 2, answer: accepted },
            failed,
            MessageRequeued { message: message.clone(), peer },
            MessageDropped { message, peer },
        ]
    });
    let of_session = kinds.into_iter().flatten();
    let of_session = of_session.map(|kind| AuditEvent::new(timestamp, session_id.clone(), kind));
    let of_endpoint = kinds![
        EndpointFailed(receiver.clone()),
        EndpointPaused { receiver: receiver.clone(), failing_since: timestamp },
        EndpointResumed { receiver, peer: Some(peer) },
    ];
    of_session.chain(of_endpoint.into_iter().map(|kind| AuditEvent::new(timestamp, None, kind))).collect()
}

/// Events of the ground-truth layer.
mod ground_events;

mod leaves;

mod summaries;

mod verification_events;

fn daemon_events(timestamp: Timestamp) -> [AuditEvent; 9] {
    let peer = PeerCredentials { uid: 1, gid: 2, pid: None };
    [
        AuditEvent::new(
            timestamp,
            None,
            ControlAction { action: "drain".into(), detail: String::new(), peer: None },
        ),
        AuditEvent::new(
            timestamp,
            None,
            OracleHealthChanged {
                oracle_id: "model".parse().expect("a valid id"),
                from: OracleHealthLevel::Degraded,
                to: OracleHealthLevel::CircuitOpen,
                cause: "3 failures in a row".into(),
                consecutive_failures: 3,
                peer: None,
                was_open: false,
            },
        ),
        AuditEvent::new(
            timestamp,
            None,
            StorageRecovered {
                cause: "full".into(),
                failed_at: timestamp,
                fallback_entries: 7,
                lost_rows: Some(vec![LostRow { row: "verdicts/cs_1".into(), entry: 7, segment: 1 }]),
            },
        ),
        AuditEvent::new(
            timestamp,
            None,
            BackupTaken(BackupEntry { entries: 12, bytes: 4096, complete: true, peer }),
        ),
        AuditEvent::new(timestamp, None, MirrorRepaired { damaged_seq: 12, offset: 4096 }),
        AuditEvent::new(
            timestamp,
            None,
            StoreUpgraded { from_schema: 1, to_schema: 2, entries: 12, tables: vec!["sessions".into()] },
        ),
        AuditEvent::new(
            timestamp,
            None,
            ServiceStarted { version: "1".into(), log_key: "log+1+AQ==".into() },
        ),
        AuditEvent::new(
            timestamp,
            None,
            LogKeyReplaced { before: "log+1+AQ==".into(), after: "log+2+AQ==".into() },
        ),
        AuditEvent::new(timestamp, None, ServiceStopped {}),
    ]
}

fn budget_event(timestamp: Timestamp) -> AuditEvent {
    AuditEvent::new(
        timestamp,
        None,
        DailyBudgetReached {
            application: None,
            day: day_of(timestamp),
            budget: "20".parse().expect("a number"),
            costs: "20.0003".parse().expect("a number"),
            currency: "USD".into(),
            level: EventSeverity::Escalation,
        },
    )
}

fn sample_generation() -> VerdictGeneration {
    VerdictGeneration {
        prompt_template: Some("oracled-default@1".parse().expect("a valid reference")),
        prompt_sha256: Sha256Hex::of(b"prompt"),
        reasked: false,
        settings: GenerationSettings::locked("model".into()),
    }
}

/// A comparison of a regenerated verdict with an unknown first one.
fn sample_check(generation: &VerdictGeneration) -> DivergenceCheck {
    let regenerated = RegeneratedVerdict {
        tier: ProductTier::Full,
        label: VerdictLabel::Null,
        path: GatePath::Regen,
        prompt: None,
        settings: Some(&generation.settings),
    };
    DivergenceCheck::of(None, &regenerated)
}

/// An event of each kind.
fn all() -> Vec<AuditEvent> {
    let (timestamp, session_id): (Timestamp, SessionId) =
        ("2026-11-20T10:00:00Z".parse().expect("a valid time"), "cs_1".parse().expect("a valid id"));
    let verdict_sha256 = Sha256Hex::of(b"");
    let peer = PeerCredentials { uid: 1, gid: 2, pid: Some(3) };
    let generation = sample_generation();
    let checked = sample_check(&generation);
    let mut events = vec![
        entry("{}"),
        AuditEvent::new(
            timestamp,
            session_id.clone(),
            CrosscheckError { path: GatePath::Submit, level: EventSeverity::Error, cause: "a fault".into() },
        ),
        AuditEvent::new(timestamp, None, RulesEvaluated(RulesEntry::of(&evaluation(), None))),
        AuditEvent::new(timestamp, session_id.clone(), RejectingCheckDropped {}),
        AuditEvent::new(
            timestamp,
            session_id.clone(),
            VerdictCached {
                tier: ProductTier::Full,
                verdict_label: VerdictLabel::Null,
                verdict_sha256: verdict_sha256.clone(),
                path: GatePath::CacheWrite,
                evaluation_sha256: Some(Sha256Hex::of(b"evaluation")),
            },
        ),
        AuditEvent::new(
            timestamp,
            session_id.clone(),
            VerdictPurged { verdict_sha256: Some(verdict_sha256.clone()), peer },
        ),
        AuditEvent::new(
            timestamp,
            session_id.clone(),
            RegenAttempted { tier: ProductTier::Full, generation },
        ),
        AuditEvent::new(
            timestamp,
            session_id.clone(),
            RegenFailed { outcome: GenerationOutcome::ModelTimeout, cause: "no answer within 9 s".into() },
        ),
        interaction(&session_id, timestamp),
        AuditEvent::new(timestamp, session_id.clone(), RegenDivergenceCheck(checked)),
        AuditEvent::new(
            timestamp,
            None,
            InfrastructureVariance {
                variance: RegenVariance { regens: 100, diverged: 6, rate: 0.06, escalated: true },
                threshold: 0.05,
                level: EventSeverity::Escalation,
            },
        ),
    ];
    events.extend(recall_events(&session_id, peer, timestamp));
    events.extend(session_events(&session_id, peer, timestamp));
    events.extend(message_events(&session_id, peer, timestamp));
    events.extend(order_events(&session_id, peer, timestamp));
    let [action, health, recovered, backup, repaired, upgraded, started, replaced, stopped] =
        daemon_events(timestamp);
    events.extend([action, health, budget_event(timestamp)]);
    let kinds = [ground_events::all(peer, timestamp), verification_events::all(peer)].concat();
    events.extend(kinds.into_iter().map(|kind| AuditEvent::new(timestamp, None, kind)));
    events.extend([repaired, recovered, upgraded, backup, replaced, started, stopped]);
    events
}

/// One event of each kind about recalled verdicts.
fn recall_events(session_id: &SessionId, peer: PeerCredentials, timestamp: Timestamp) -> Vec<AuditEvent> {
    let (oracle_id, run_id) = ("office".parse().expect("a valid id"), Sha256Hex::of(b""));
    let (evaluation, result) = (7, RecallResult::NowContradicted);
    let recalled =
        VerdictRecalled { oracle_id, run_id: run_id.clone(), evaluation, result, notice_drafted: true };
    let ended = RunRecalled { oracle_id: recalled.oracle_id.clone(), run_id, verdicts: 14 };
    let (reason, user_name) = ("a \"reason\"".to_owned(), Some("anna".to_owned()));
    let kinds = kinds![
        recalled,
        RecallNoticeRead { peer },
        RecallNoticeReleased { reason: reason.clone(), user_name: user_name.clone(), peer },
        RecallNoticeDiscarded { reason, user_name, peer },
        RecallNoticeWithdrawn { oracle_id: ended.oracle_id.clone() },
    ];
    let of_session = kinds.into_iter().map(|kind| AuditEvent::new(timestamp, session_id.clone(), kind));
    of_session.chain([AuditEvent::new(timestamp, None, ended)]).collect()
}

fn sample_tally() -> OpinionTally {
    let [gemini, backup] = ["gemini", "backup"].map(|id| id.parse().expect("an id"));
    let plan =
        OpinionPlan { count: 3, agree: 2, models: vec![backup, gemini.clone()], holds_disagreed: false };
    let opinion = OpenOpinion { oracle_id: gemini, verdict_label: VerdictLabel::Green, answer: None };
    plan.tally([&opinion])
}

/// One event of each kind about orders.
fn order_events(session_id: &SessionId, peer: PeerCredentials, timestamp: Timestamp) -> Vec<AuditEvent> {
    let generation = sample_generation();
    let kinds = kinds![
        OrderPlaced { tier: ProductTier::Full, query_preview: "Sell honey?".into(), has_email: true },
        OrderAttempted { attempt: 1, generation, oracle_id: None, is_last: false },
        OrderAttemptFailed {
            attempt: 1,
            outcome: GenerationOutcome::ModelUnavailable,
            cause: "a fault".into(),
            rejection: Some(AnswerRejection {
                flags: vec![Flag::ShortSummary],
                rules: vec![RejectingRule { rule: RuleId::Prec004, claims: vec![1, 2] }],
            }),
            next_attempt_at: Some(timestamp),
        },
        OrderOpinion {
            attempt: 1,
            oracle_id: "gemini".parse().expect("an id"),
            verdict_label: VerdictLabel::Green,
            verdict_sha256: Sha256Hex::of(b""),
            tally: sample_tally(),
        },
        OrderStopped {
            state: OrderState::Failed,
            cause: OrderStopCause::Operator,
            attempts: 1,
            reason: Some("cancelled".into()),
            user_name: Some("anna".into()),
            peer: Some(peer),
        },
        OrderRetried { reason: "mended".into(), user_name: Some("anna".into()), peer },
        OrderReleased {
            verdict_sha256: Sha256Hex::of(b""),
            reason: "sound".into(),
            user_name: Some("anna".into()),
            peer,
        },
        ErasureStarted(ErasureStartEntry { reason: "request of the customer".into(), peer }),
        SessionErased(ErasureEndEntry {
            started_seq: 7,
            data: [ErasedData::new("session"), ErasedData::LOG_VALUES].into(),
            reason: "request of the customer".into(),
            peer,
            unread_files: Vec::new(),
        }),
        RetentionStarted(RetentionStartEntry { due: due_data(), peer: None, log_key: None }),
        SessionsExpired(SessionExpiryEntry {
            started_seq: 7,
            session_ids: vec!["cs_1".parse().expect("a session id")],
        }),
        RetentionApplied(RetentionEndEntry { started_seq: 7, due: due_data(), sessions: 1, unread_files: 0 }),
        HeldVerdictRead { verdict_sha256: Sha256Hex::of(b""), peer },
        PolicyApplied {
            policy: AppliedPolicy {
                action: PolicyAction::Refuse,
                causes: vec![PolicyCause::Flag(Flag::VerdictConflict), PolicyCause::CoherenceMin(0.99)],
            },
            verdict_sha256: Sha256Hex::of(b""),
            path: GatePath::Submit,
        },
        OrderDelivered { path: GatePath::Generate, attempts: 2 },
        OrderCancelled {
            from: OrderState::Generating,
            attempts: 2,
            reason: Some("refunded".into()),
            user_name: Some("ann".into()),
            peer: Some(peer),
        },
    ];
    kinds.into_iter().map(|kind| AuditEvent::new(timestamp, session_id.clone(), kind)).collect()
}

#[test]
fn every_event_round_trips_with_its_kind_as_tag() {
    let events = all();
    let names: BTreeSet<_> = events.iter().map(|event| event.kind.name()).collect();
    assert_eq!(names, event_types().map(|kind| kind.name).collect());
    for event in events {
        let line = serde_json::to_string(&event).expect("the value serializes");
        assert_eq!(read_event(&line).expect("valid JSON").as_ref(), Some(&event));
        assert!(line.starts_with(&format!("{{\"event\":\"{}\"", event.kind.name())), "{line}");
        assert_eq!(event_in(&line), Some(event.kind.name()));
        let notice = event.notice().map(|notice| WebhookType::of(notice.kind));
        assert_ne!(notice, Some(None), "a notice without a type of webhook: {line}");
        assert!(line.ends_with("\"timestamp\":\"2026-11-20T10:00:00Z\"}"), "{line}");
        let session_id = match (&event.session_id, event.kind.name()) {
            (Some(session_id), _) => Some(json!(session_id)),
            (None, "rules_evaluated") => Some(Value::Null),
            (None, _) => None,
        };
        let fields: Value = serde_json::from_str(&line).expect("valid JSON");
        assert_eq!(fields.get("session_id"), session_id.as_ref(), "{line}");
        // the members that an entry can lack
        let is_optional =
            |member: &&&str| ["case_id", "facts_from", "query_id", "response_hash"].contains(*member);
        for member in event.kind.event_type().erasable.iter().filter(|member| !is_optional(member)) {
            assert!(fields.get(*member).is_some(), "{member}: {line}");
        }
    }
}

#[test]
fn mirrored_line_hides_only_what_the_event_names_and_has_the_same_leaf() {
    let salts = EntrySalts { secret: [7; 16], covers_session_ids: true };
    let mut shortened = BTreeSet::new();
    for event in all() {
        let kind = event.kind.event_type();
        assert!(kind.not_mirrored.iter().all(|member| kind.erasable.contains(member)), "{}", kind.name);
        let EntryText { line, leaf } = entry_text(1, &event, EntryAdditions::default(), &salts);
        let mirrored = mirrored_line(&line);
        assert_eq!(leaf_of(&mirrored).expect("an entry"), leaf, "{line}");
        assert_eq!(hidden_members(&mirrored).expect("an entry"), kind.not_mirrored, "{line}");
        if *mirrored != *line {
            shortened.insert(kind.name);
        }
    }
    assert_eq!(shortened, BTreeSet::from([VerificationDecided::NAME]));
}

#[test]
fn operator_change_of_a_circuit_requires_its_entry() {
    let changed = |peer| {
        AuditEvent::new(
            "2026-11-20T10:00:00Z".parse().expect("a valid time"),
            None,
            OracleHealthChanged {
                oracle_id: "model".parse().expect("a valid id"),
                from: OracleHealthLevel::Healthy,
                to: OracleHealthLevel::CircuitOpen,
                cause: String::new(),
                consecutive_failures: 0,
                peer,
                was_open: false,
            },
        )
    };
    assert!(!changed(None).kind.needs_commit());
    assert!(changed(Some(PeerCredentials { uid: 1, gid: 2, pid: None })).kind.needs_commit());
}

fn due_data() -> DueData {
    let before = "2026-10-21T10:00:00Z".parse().expect("a time");
    DueData {
        verdicts: Some(DueKind { days: 30, before, last_seq: 4, count: 1, oldest: Some(before) }),
        log_values: None,
        verifications: Some(DueKind { days: 30, before, last_seq: 4, count: 0, oldest: None }),
        log: None,
    }
}

/// Whether a schema has the texts of upstreams in it.
fn has_upstream_text(schema: &Value, all: &Value) -> bool {
    match schema {
        Value::Object(members) => members.iter().any(|(name, value)| match (name.as_str(), value.as_str()) {
            ("$ref", Some(path)) => {
                let name = path.rsplit('/').next().unwrap_or_default();
                name == "UpstreamText" || has_upstream_text(&all[name], all)
            }
            _ => has_upstream_text(value, all),
        }),
        Value::Array(items) => items.iter().any(|item| has_upstream_text(item, all)),
        _ => false,
    }
}

/// The members of an event, with their schemas.
fn members_of(schema: &Value, all: &Value) -> Vec<(String, Value)> {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        return members_of(&all[name], all);
    }
    let own = schema["properties"].as_object().into_iter().flatten();
    let own = own.map(|(name, schema)| (name.clone(), schema.clone()));
    let parts = ["allOf", "oneOf"].into_iter().filter_map(|name| schema[name].as_array()).flatten();
    own.chain(parts.flat_map(|part| members_of(part, all))).collect()
}

#[test]
fn text_of_an_upstream_is_only_in_erasable_members_of_events() {
    let mut found = Vec::new();
    for event in event_types() {
        let mut schemas = Vec::new();
        (event.schemas)(&mut schemas);
        let all = json!(schemas.into_iter().collect::<BTreeMap<_, _>>());
        for (member, schema) in members_of(&json!((event.schema)()), &all) {
            if has_upstream_text(&schema, &all) {
                assert!(event.erasable.contains(&&*member), "{} {member}", event.name);
                found.push(format!("{} {member}", event.name));
            }
        }
    }
    let expected = [
        "regen_failed cause",
        "order_attempt_failed cause",
        "oracle_interaction finish_reason",
        "oracle_interaction oracle_version",
        "message_failed cause",
        "source_asked oracle_version",
    ];
    assert_eq!(found, expected);
}
