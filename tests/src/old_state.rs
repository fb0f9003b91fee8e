//! A state directory whose first entries are old.

use domain_base::event::AuditEvent;
use domain_base::session_id::SessionId;
use domain_verdict::divergence::OriginalLabel;
use domain_verdict::event::SessionRegistered;
use domain_verdict::label::ProductTier;
use domain_verdict::query::CustomerQuery;
use domain_verdict::session::SessionRecord;
use jiff::{SignedDuration, Timestamp};
use oracled_store::{JournalRecord, RowWrite, Store, StoreOptions};
use std::path::Path;

/// Registers sessions with the address `NAME-7421@example.org` in the store in `state_dir`, each with its age in days. No daemon may
/// serve from it. The oldest one must be the first.
pub fn register_days_ago<'n>(state_dir: &Path, sessions: impl IntoIterator<Item = (&'n str, i64)>) {
    let options = StoreOptions {
        dir: state_dir.to_owned(),
        cache_bytes: 1 << 20,
        facts_cache_bytes: 1 << 20,
        min_free_bytes: 0,
    };
    let (mut journal, _store) = Store::open(options).expect("the store opens");
    for (session, age_days) in sessions {
        let at = Timestamp::now() - SignedDuration::from_hours(24 * age_days);
        let query = format!("{session}-7421: what does this mean?");
        let session_id: SessionId = session.parse().expect("a session id");
        let record = SessionRecord {
            customer_email: Some(format!("{session}-7421@example.org").try_into().expect("an address")),
            ..SessionRecord::new(session_id.clone(), ProductTier::Quick, CustomerQuery::new(query.clone()))
        };
        let registered = SessionRegistered {
            tier: ProductTier::Quick,
            query_preview: query,
            original_verdict: OriginalLabel(None),
            has_email: true,
        };
        let record = JournalRecord {
            events: vec![AuditEvent::new(at, session_id, registered)],
            writes: vec![RowWrite::put::<SessionRecord>(&record)],
            ..JournalRecord::default()
        };
        journal.commit(&[record]).expect("the commit succeeds").remove(0).expect("the record is not stale");
    }
}
