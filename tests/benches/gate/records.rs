//! The data of the measurements: verdicts of typical size, and the records of their deliveries, as the actors
//! create them.

use domain_base::digest::Sha256Hex;
use domain_base::event::{AuditEvent, EventKind};
use domain_base::gate_path::GatePath;
use domain_base::payload::VerdictPayload;
use domain_base::session_id::SessionId;
use domain_base::upstream_text::UpstreamText;
use domain_upstream::event::InteractionStatus;
use domain_upstream::upstream_id::UpstreamId;
use domain_verdict::crosscheck::{ApprovedVerdict, judge};
use domain_verdict::delivery::{RegenNotes, VerdictDelivery};
use domain_verdict::divergence::{DivergenceCheck, NoteLanguage, OriginalLabel, RegeneratedVerdict};
use domain_verdict::event::{
    CrosscheckEntry, OracleInteraction, OrderAttempted, OrderDelivered, OrderPlaced, RegenAttempted,
    RegenDivergenceCheck, TmmCrosscheck, VerdictCached,
};
use domain_verdict::generation::{GenerationSettings, LOCKED_MODEL, ModelTokenUsage, VerdictGeneration};
use domain_verdict::interaction::OracleInteractionLog;
use domain_verdict::label::{ProductTier, VerdictLabel};
use domain_verdict::order::{Order, OrderAttemptStart};
use domain_verdict::query::CustomerQuery;
use domain_verdict::regen::RegenAttempt;
use domain_verdict::session::{OriginalVerdict, SessionRecord};
use jiff::{SignedDuration, Timestamp};
use oracled_store::{JournalRecord, RowExpectation, RowWrite};
use oracled_tests::generation::built_in_prompt;

/// The question of every session.
pub(crate) const QUERY: &str = "Start a channel about restoring cast iron pans, two videos a week for a year, filmed in a shared workshop.";

/// A verdict of `tier`, as a model would write it.
pub(crate) const fn text(tier: ProductTier) -> &'static str {
    match tier {
        ProductTier::Quick => include_str!("payloads/quick.json").trim_ascii_end(),
        ProductTier::Full => include_str!("payloads/full.json").trim_ascii_end(),
        ProductTier::Strategy => include_str!("payloads/strategy.json").trim_ascii_end(),
    }
}

/// The id of session number `number`. All ids have the same length and are in no order, like those of a
/// payment provider.
pub(crate) fn session_id(number: usize) -> String {
    // the finalizer of splitmix64, which maps different numbers to different results
    let mixed = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    format!("cs_live_{:016x}", mixed ^ (mixed >> 31))
}

/// The record of the first delivery of a full verdict that was submitted.
pub(crate) fn record(number: usize) -> JournalRecord {
    first(number, GatePath::Submit, None)
}

/// The two records of a first full verdict that a model generated: the order with its attempt, committed before the model
/// call, and the verdict.
pub(crate) fn ordered(number: usize) -> [JournalRecord; 2] {
    let (session_id, now, tier, generation) = (id(number), Timestamp::now(), ProductTier::Full, generation());
    let query = CustomerQuery::new(QUERY.to_owned());
    let placed = OrderPlaced { tier, query_preview: query.preview(), has_email: false };
    let oracle_id: UpstreamId = "gemini".parse().expect("a valid id");
    let attempted = OrderAttempted {
        attempt: 1,
        generation: generation.clone(),
        oracle_id: Some(oracle_id.clone()),
        is_last: false,
    };
    let time_limit = SignedDuration::from_secs(28);
    let start = OrderAttemptStart { oracle_id, generation: generation.clone(), is_last: false, time_limit };
    let order = Order::placed(now).attempted(start, now);
    let session = SessionRecord { order: Some(order), ..SessionRecord::new(session_id.clone(), tier, query) };
    let placed = JournalRecord {
        expect: vec![RowExpectation::new::<SessionRecord>(&session_id, None)],
        events: [EventKind::from(placed), attempted.into()]
            .map(|event| AuditEvent::new(now, session_id.clone(), event))
            .into(),
        writes: vec![RowWrite::put::<SessionRecord>(&session)],
        ..JournalRecord::default()
    };
    let mut verdict = first(number, GatePath::Generate, Some(generation));
    // the revision of the session is known only after the first commit
    verdict.expect.retain(|expected| expected.row.key::<SessionRecord>().is_none());
    let delivered = OrderDelivered { path: GatePath::Generate, attempts: 1 };
    verdict.events.push(AuditEvent::new(now, session_id, delivered));
    [placed, verdict]
}

/// The two records of a regenerated full verdict: the attempt, committed before the model call, and the verdict.
pub(crate) fn regenerated(number: usize) -> [JournalRecord; 2] {
    let (session_id, now, tier, generation) = (id(number), Timestamp::now(), ProductTier::Full, generation());
    let attempt =
        RegenAttempt { session_id: session_id.clone(), attempted_at: now, host: None, failure: None };
    let attempted =
        AuditEvent::new(now, session_id.clone(), RegenAttempted { tier, generation: generation.clone() });
    let noted = JournalRecord {
        expect: vec![RowExpectation::new::<RegenAttempt>(&session_id, None)],
        events: vec![attempted],
        writes: vec![RowWrite::put::<RegenAttempt>(&attempt)],
        ..JournalRecord::default()
    };
    let (mut events, approved) = judged(&session_id, GatePath::Regen, Some(&generation), now);
    let (original, label) = (OriginalVerdict::reported(VerdictLabel::Green), approved.label());
    let (path, prompt, settings) = (GatePath::Regen, generation.prompt(), &generation.settings);
    let regenerated =
        RegeneratedVerdict { tier, label, path, prompt: Some(&prompt), settings: Some(settings) };
    let check = DivergenceCheck::of(Some(&original), &regenerated);
    events.push(AuditEvent::new(now, session_id.clone(), RegenDivergenceCheck(check)));
    let original_label = OriginalLabel(Some(original.verdict_label));
    let regen = Some(RegenNotes {
        original: original_label,
        prompt_changed: false,
        settings_changed: false,
        reasked: false,
        language: NoteLanguage::En,
    });
    let delivered = delivered(session_id, approved, regen, now, events);
    [noted, delivered]
}

fn id(number: usize) -> SessionId {
    session_id(number).parse().expect("an id")
}

/// The prompt and the settings of a generated verdict.
fn generation() -> VerdictGeneration {
    let prompt = built_in_prompt(ProductTier::Full, QUERY);
    VerdictGeneration::new(&prompt, GenerationSettings::locked(LOCKED_MODEL.to_owned()))
}

fn first(number: usize, path: GatePath, generation: Option<VerdictGeneration>) -> JournalRecord {
    let (session_id, now) = (id(number), Timestamp::now());
    let (events, approved) = judged(&session_id, path, generation.as_ref(), now);
    let prompt = generation.as_ref().map(VerdictGeneration::prompt);
    let settings = generation.map(|generation| generation.settings);
    let session = SessionRecord {
        original: Some(OriginalVerdict::delivered(&approved, prompt, settings, now)),
        delivered_sha256: Some(approved.sha256().clone()),
        cached_sha256: Some(approved.sha256().clone()),
        ..SessionRecord::new(session_id.clone(), ProductTier::Full, CustomerQuery::new(QUERY.to_owned()))
    };
    let mut record = delivered(session_id, approved, None, now, events);
    record.writes.push(RowWrite::put::<SessionRecord>(&session));
    record
}

/// An approved verdict, and its log entries.
fn judged(
    session_id: &SessionId,
    path: GatePath,
    generation: Option<&VerdictGeneration>,
    now: Timestamp,
) -> (Vec<AuditEvent>, ApprovedVerdict) {
    let query = CustomerQuery::new(QUERY.to_owned());
    let judgment = judge(ProductTier::Full, VerdictPayload::raw(text(ProductTier::Full)));
    let entry = TmmCrosscheck(CrosscheckEntry::of(&judgment, &query, path));
    let entry = AuditEvent::new(now, session_id.clone(), entry);
    let approved = judgment.outcome.expect("the verdict is coherent");
    let cached = AuditEvent::new(
        now,
        session_id.clone(),
        VerdictCached {
            tier: approved.tier(),
            verdict_label: approved.label(),
            verdict_sha256: approved.sha256().clone(),
            path,
            evaluation_sha256: None,
        },
    );
    let interaction_entry = generation.map(|generation| interaction(session_id, path, generation, now));
    (interaction_entry.into_iter().chain([entry, cached]).collect(), approved)
}

/// The entry of a model call that succeeded at the first attempt.
fn interaction(
    session_id: &SessionId,
    path: GatePath,
    generation: &VerdictGeneration,
    now: Timestamp,
) -> AuditEvent {
    let usage = ModelTokenUsage {
        prompt_tokens: Some(300),
        output_tokens: Some(40),
        thinking_tokens: None,
        total_tokens: Some(340),
    };
    AuditEvent::new(
        now,
        session_id.clone(),
        OracleInteraction(Box::new(OracleInteractionLog {
            execution_id: format!("{}:{session_id}:{}", path.into_str(), now.as_microsecond()),
            oracle_id: "gemini".into(),
            oracle_version: UpstreamText::new(format!("v1beta/{LOCKED_MODEL}")),
            request_timestamp: now,
            response_timestamp: Some(now),
            latency_ms: 20,
            status: InteractionStatus::Success,
            error_code: None,
            response_hash: Some(Sha256Hex::of(text(ProductTier::Full).as_bytes())),
            cache_hit: false,
            stale_data_used: false,
            path,
            tier: ProductTier::Full,
            attempt: 1,
            soft_timeout_exceeded: false,
            prompt_sha256: generation.prompt_sha256.clone(),
            generation: generation.settings.clone(),
            finish_reason: Some("STOP".into()),
            usage: Some(usage),
            cost: None,
        })),
    )
}

fn delivered(
    session_id: SessionId,
    approved: ApprovedVerdict,
    regen: Option<RegenNotes>,
    now: Timestamp,
    events: Vec<AuditEvent>,
) -> JournalRecord {
    let expect = vec![
        RowExpectation::new::<VerdictDelivery>(&session_id, None),
        RowExpectation::new::<SessionRecord>(&session_id, None),
    ];
    let query = CustomerQuery::new(QUERY.to_owned());
    let delivery =
        VerdictDelivery { session_id, query, approved, cached_at: now, regen, evaluation_sha256: None };
    let writes = vec![RowWrite::put::<VerdictDelivery>(&delivery)];
    JournalRecord { expect, events, writes, ..JournalRecord::default() }
}
