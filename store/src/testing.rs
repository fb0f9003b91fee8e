//! Deliveries of sessions, for tests.

use crate::{Journal, JournalRecord, LogLine, LogQuery, RowExpectation, RowWrite, Store, StoreOptions};
use domain_base::event::AuditEvent;
use domain_base::gate_path::GatePath;
use domain_base::payload::VerdictPayload;
use domain_base::session_id::SessionId;
use domain_verdict::crosscheck::judge;
use domain_verdict::delivery::VerdictDelivery;
use domain_verdict::event::VerdictCached;
use domain_verdict::label::ProductTier;
use domain_verdict::query::CustomerQuery;
use domain_verdict::session::{OriginalVerdict, SessionRecord};
use jiff::Timestamp;
use std::ops::Range;
use std::path::Path;

pub(crate) fn options(dir: &Path) -> StoreOptions {
    StoreOptions { dir: dir.to_owned(), cache_bytes: 8 << 20, facts_cache_bytes: 1 << 20, min_free_bytes: 0 }
}

pub(crate) fn open(dir: &Path) -> (Journal, Store) {
    Store::open(options(dir)).expect("the store opens")
}

pub(crate) fn id(n: usize) -> SessionId {
    format!("cs_{n}").parse().expect("a valid id")
}

pub(crate) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).expect("a valid time")
}

/// The delivery of session `n`, with a summary of `summary_bytes` bytes.
pub(crate) fn delivery(n: usize, summary_bytes: usize) -> VerdictDelivery {
    let verdict = format!(r#"{{"verdict":"GREEN","summary":"{}"}}"#, "s".repeat(summary_bytes));
    let judgment = judge(ProductTier::Quick, VerdictPayload::raw(&verdict));
    VerdictDelivery {
        session_id: id(n),
        query: CustomerQuery::new(format!("Question {n}?")),
        approved: judgment.outcome.expect("the verdict passes the crosscheck"),
        cached_at: at(n as i64),
        regen: None,
        evaluation_sha256: None,
    }
}

/// The record of a delivery: one entry, its session and its verdict.
pub(crate) fn delivered(n: usize, summary_bytes: usize) -> JournalRecord {
    let delivery = delivery(n, summary_bytes);
    let approved = &delivery.approved;
    let cached = VerdictCached {
        tier: ProductTier::Quick,
        verdict_label: approved.label(),
        verdict_sha256: approved.sha256().clone(),
        path: GatePath::Submit,
        evaluation_sha256: None,
    };
    let session = SessionRecord {
        original: Some(OriginalVerdict::delivered(approved, None, None, at(n as i64))),
        delivered_sha256: Some(approved.sha256().clone()),
        cached_sha256: Some(approved.sha256().clone()),
        ..SessionRecord::new(id(n), ProductTier::Quick, delivery.query.clone())
    };
    JournalRecord {
        expect: vec![RowExpectation::new::<VerdictDelivery>(&id(n), None)],
        events: vec![AuditEvent::new(at(n as i64), id(n), cached)],
        writes: vec![RowWrite::put::<VerdictDelivery>(&delivery), RowWrite::put::<SessionRecord>(&session)],
        ..JournalRecord::default()
    }
}

/// Commits each record, all of them as one group.
pub(crate) fn commit(journal: &mut Journal, group: &[JournalRecord]) {
    for outcome in journal.commit(group).expect("the commit succeeds") {
        outcome.expect("the record is not stale");
    }
}

pub(crate) fn fill(journal: &mut Journal, sessions: Range<usize>) {
    commit(journal, &sessions.map(|n| delivered(n, 40)).collect::<Vec<_>>());
}

pub(crate) fn whole_log(store: &Store) -> Vec<LogLine> {
    store.log(&LogQuery { limit: usize::MAX, ..LogQuery::default() }).expect("the log is read")
}
