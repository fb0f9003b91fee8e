//! The records and log entries for changes of a session.

use crate::submission::GenerationTrace;
use domain_base::event::AuditEvent;
use domain_base::gate_path::GatePath;
use domain_verdict::cost::ModelCost;
use domain_verdict::divergence::OriginalLabel;
use domain_verdict::event::{OrderDelivered, SessionAddressChanged, SessionRegistered};
use domain_verdict::generation::ModelTokenUsage;
use domain_verdict::generation_outcome::GenerationOutcome;
use domain_verdict::order::{Order, OrderState};
use domain_verdict::session::{CustomerEmail, SessionRecord};
use jiff::Timestamp;
use oracled_store::{JournalRecord, RowExpectation, RowName, RowWrite, Store, StoreError};

/// The record that stores `session`, and requires `revision` of its row.
pub(super) fn session_update_record(
    session: &SessionRecord,
    revision: Option<u64>,
    now: Timestamp,
) -> JournalRecord {
    JournalRecord {
        expect: vec![RowExpectation::new::<SessionRecord>(&session.session_id, revision)],
        events: vec![session_registered_event(session, now)],
        writes: vec![RowWrite::put::<SessionRecord>(session)],
        ..JournalRecord::default()
    }
}

/// The record that stores `address` with a session, whose revision is `revision`; `None` if the session has an address.
pub(crate) fn new_address_record(
    store: &Store,
    (session, revision): (SessionRecord, u64),
    address: &CustomerEmail,
    now: Timestamp,
) -> Result<Option<JournalRecord>, StoreError> {
    if session.customer_email.is_some() {
        return Ok(None);
    }
    let after = SessionRecord { customer_email: Some(address.clone()), ..session.clone() };
    let changed = address_change_event(store, Some(&session), &after, now)?;
    let row = RowName::of::<SessionRecord>(&after.session_id);
    Ok(Some(JournalRecord {
        expect: vec![RowExpectation { row, revision: Some(revision) }],
        events: changed.into_iter().collect(),
        writes: vec![RowWrite::put::<SessionRecord>(&after)],
        ..JournalRecord::default()
    }))
}

/// The entry of a session that was registered or changed.
pub(super) fn session_registered_event(session: &SessionRecord, timestamp: Timestamp) -> AuditEvent {
    let label = session.original.as_ref().map(|original| original.verdict_label);
    AuditEvent::new(
        timestamp,
        session.session_id.clone(),
        SessionRegistered {
            tier: session.tier,
            query_preview: session.query.preview(),
            original_verdict: OriginalLabel(label),
            has_email: session.customer_email.is_some(),
        },
    )
}

/// Ends the open order of a session whose verdict is delivered. Returns the order and the log entry; `None` if there is no
/// order, or it was delivered before.
pub(super) fn deliver_order(
    session: &SessionRecord,
    path: GatePath,
    trace: Option<&GenerationTrace>,
    now: Timestamp,
) -> Option<(Order, AuditEvent)> {
    let order = session.order.as_ref().filter(|order| order.state != OrderState::Delivered)?;
    let order = order.clone().delivered(attempt_end(path, GenerationOutcome::Delivered, trace), now);
    let delivered = OrderDelivered { path, attempts: order.attempts };
    Some((order, AuditEvent::new(now, session.session_id.clone(), delivered)))
}

/// The end of an attempt in progress, when a verdict of `path` is delivered or held: its own verdict, or one that overtakes
/// it.
pub(super) fn attempt_end(
    path: GatePath,
    own: GenerationOutcome,
    trace: Option<&GenerationTrace>,
) -> (GenerationOutcome, Option<ModelTokenUsage>, Option<ModelCost>) {
    let outcome = if path == GatePath::Generate { own } else { GenerationOutcome::Replayed };
    (outcome, GenerationTrace::usage(trace), GenerationTrace::cost(trace))
}

/// The log entry for a changed address of a known session.
pub(crate) fn address_change_event(
    store: &Store,
    before: Option<&SessionRecord>,
    after: &SessionRecord,
    timestamp: Timestamp,
) -> Result<Option<AuditEvent>, StoreError> {
    let Some(before) = before.filter(|before| before.customer_email != after.customer_email) else {
        return Ok(None);
    };
    let digest = |email: Option<&CustomerEmail>| {
        email.map(|email| store.keyed_digest(&email.as_str().to_lowercase())).transpose()
    };
    Ok(Some(AuditEvent::new(
        timestamp,
        after.session_id.clone(),
        SessionAddressChanged {
            before: digest(before.customer_email.as_ref())?,
            after: digest(after.customer_email.as_ref())?,
        },
    )))
}
