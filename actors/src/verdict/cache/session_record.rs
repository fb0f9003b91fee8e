//! The records and log entries for changes of a session.

use jiff::Timestamp;
use oracled_domain::verdict::divergence::OriginalLabel;
use oracled_domain::verdict::session::Email;
use oracled_domain::{Event, EventKind, Session};
use oracled_store::{Expect, Record, RowKey, Store, StoreError, Write};

/// The record that stores `session`, and requires `revision` of its row.
pub(super) fn kept(session: &Session, revision: Option<u64>, now: Timestamp) -> Record {
    Record {
        expect: vec![Expect { row: RowKey::Session(session.session_id.clone()), revision }],
        events: vec![registered(session, now)],
        writes: vec![Write::PutSession(session.clone().into())],
        ..Record::default()
    }
}

/// The entry of a session that was registered or changed.
pub(super) fn registered(session: &Session, timestamp: Timestamp) -> Event {
    let label = session.original.as_ref().map(|original| original.verdict_label);
    Event::new(
        timestamp,
        session.session_id.clone(),
        EventKind::SessionRegistered {
            tier: session.tier,
            query_preview: session.query.preview(),
            original_verdict: OriginalLabel(label),
            has_email: session.customer_email.is_some(),
            owner_uid: session.owner_uid,
        },
    )
}

/// The log entry for a changed address of a known session.
pub(super) fn address_change(
    store: &Store,
    before: Option<&Session>,
    after: &Session,
    timestamp: Timestamp,
) -> Result<Option<Event>, StoreError> {
    let Some(before) = before.filter(|before| before.customer_email != after.customer_email) else {
        return Ok(None);
    };
    let digest = |email: Option<&Email>| email.map(|email| store.keyed_digest(email.as_str())).transpose();
    Ok(Some(Event::new(
        timestamp,
        after.session_id.clone(),
        EventKind::SessionAddressChanged {
            owner_uid: after.owner_uid,
            before: digest(before.customer_email.as_ref())?,
            after: digest(after.customer_email.as_ref())?,
        },
    )))
}
