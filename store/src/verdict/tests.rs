use super::*;
use crate::testing::{at, commit, delivered, delivery, fill, id, open};
use crate::{EntryContent, JournalRecord, SegmentLog};
use domain_audit::event::ServiceStopped;
use domain_base::event::AuditEvent;

/// Stores a value in the row `row` that has the form of another table.
fn write_of_another_row(row: RowName) -> RowWrite {
    let mut write = RowWrite::put::<RegenAttempt>(&RegenAttempt {
        session_id: id(0),
        attempted_at: at(0),
        host: None,
        failure: None,
    });
    write.row = row;
    write
}

/// A record of these writes, about no session.
fn record(writes: Vec<RowWrite>) -> JournalRecord {
    JournalRecord { writes, ..AuditEvent::new(at(0), None, ServiceStopped {}).into() }
}

#[test]
fn removal_of_a_session_removes_its_row_of_each_table_unless_one_was_written_meanwhile() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, store) = open(dir.path());
    let row = |table| RowName { table, name: id(1).to_string() };
    let write = |table| write_of_another_row(row(table));
    let mut record = delivered(1, 10);
    for table in session_tables().filter(|table| table.bundle.is_none()) {
        record.writes.push(write(table));
    }
    let mut commit = |expect, writes| {
        let record = JournalRecord { expect, writes, ..delivered(1, 10) };
        journal.commit(&[record]).expect("the commit succeeds").remove(0).is_ok()
    };
    assert!(commit(Vec::new(), record.writes));
    let rows = || store.session_rows(&id(1)).expect("the rows are read");
    let tables = ["sessions", "verdicts", "held", "rejecting_checks", "regens"];
    assert!(tables.iter().all(|name| {
        rows().0.iter().any(|(row, revision)| row.table.name == *name && revision.is_some())
    }));
    let stale = rows().removal_except(&[]);
    assert!(commit(Vec::new(), vec![write(RegenAttempt::TABLE)]));
    assert!(!commit(stale.0, stale.1), "a row was written meanwhile");
    let session = [RowWrite::remove_row(row(SessionRecord::TABLE))];
    let (expect, writes) = rows().removal_except(&session);
    assert!(writes.iter().all(|write| write.row.table.name != "sessions"));
    assert!(commit(expect, writes));
    let left: Vec<_> = rows().0.into_iter().filter(|(_, revision)| revision.is_some()).collect();
    assert!(left.len() == 1 && left[0].0.table.name == "sessions", "{left:?}");
    let (expect, writes) = rows().removal();
    assert!(commit(expect, writes));
    assert_eq!(rows().latest(), None);
    assert!(!store.has_session_data(&id(1)).expect("the rows are read"));
}

#[test]
fn expired_session_is_visited_once_however_many_tables_have_its_rows() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, store) = open(dir.path());
    let mut records: Vec<_> = (0..6).map(|n| delivered(n, 10)).collect();
    for (n, record) in records.iter_mut().enumerate() {
        let attempt =
            RegenAttempt { session_id: id(n), attempted_at: at(n as i64), host: None, failure: None };
        match n {
            // only the row of the attempt
            0 => record.writes = vec![RowWrite::put::<RegenAttempt>(&attempt)],
            1 | 2 => record.writes.push(RowWrite::put::<RegenAttempt>(&attempt)),
            _ => {}
        }
    }
    commit(&mut journal, &records);
    let mut visited = Vec::new();
    let visit = |sessions: Vec<(SessionId, u64)>| {
        visited.extend(sessions.into_iter().map(|(session_id, _)| session_id));
        true
    };
    store.visit_expired_sessions(u64::MAX, visit).expect("the rows are read");
    visited.sort();
    assert_eq!(visited, (0..6).map(id).collect::<Vec<_>>());
}

#[test]
fn damaged_verdict_can_be_removed_and_its_session_is_read() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, store) = open(dir.path());
    let damage = write_of_another_row(RowName::of::<VerdictDelivery>(&id(0)));
    commit(&mut journal, &[delivered(0, 40), record(vec![damage])]);
    assert!(store.session(&id(0)).expect("the session is readable").is_some());
    assert!(matches!(store.verdict(&id(0)), Err(StoreError::Corrupt { .. })));
    let found = store.verdict_for_removal(&id(0)).expect("the verdict is readable");
    assert_eq!(found, Some((None, 2)));
    commit(&mut journal, &[record(vec![RowWrite::remove::<VerdictDelivery>(&id(0))])]);
    assert!(store.verdict(&id(0)).expect("the verdict is readable").is_none());
    assert!(store.session(&id(0)).expect("the session is readable").is_some());
}

#[test]
fn verdict_whose_text_differs_from_that_of_its_session_is_an_error() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, store) = open(dir.path());
    fill(&mut journal, 0..3);
    let changed = RowWrite::put::<VerdictDelivery>(&delivery(1, 41));
    commit(&mut journal, &[record(vec![changed])]);
    assert!(matches!(store.verdict(&id(1)), Err(StoreError::Corrupt { .. })));
    assert!(store.verdict(&id(2)).expect("the verdict is readable").is_some());
}

#[test]
fn verdict_of_a_session_is_found_in_the_rows_of_its_commit() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, store) = open(dir.path());
    fill(&mut journal, 1..3);
    // a row of several chunks
    commit(&mut journal, &[delivered(3, 20_000)]);
    drop((journal, store));
    let mut found = Vec::new();
    let log = SegmentLog::open(dir.path()).expect("the segments exist");
    log.read(|entry| {
        let EntryContent::Line { rows: Some(rows), .. } = entry.content else { panic!("no snapshot") };
        let verdict = |n| committed_verdict(&rows, &id(n)).expect("the rows are readable");
        found.push([1, 2, 3, 77].map(|n| verdict(n).map(|stored| stored.verdict.get().len())));
        true
    })
    .expect("the segments are whole");
    found.dedup();
    let length = |summary: usize| Some(r#"{"verdict":"GREEN","summary":""}"#.len() + summary);
    let both = [[length(40), length(40), None, None], [None, None, length(20_000), None]];
    assert_eq!(found, both);
}

#[test]
fn outbox_is_visited_in_id_order_from_any_id() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut journal, store) = open(dir.path());
    let queued = |n: usize| {
        let to = "a@b".to_owned().try_into().expect("an address");
        let mail = OutboxMail::queued(MailKind::Verdict, delivery(n, 40).into(), to);
        record(vec![RowWrite::put(&OutboxMessage::from(mail))])
    };
    commit(&mut journal, &(1000..2200).map(queued).collect::<Vec<_>>());
    let visited = |after: Option<&MessageId>, most: usize| {
        let mut ids = Vec::new();
        let visit = |state: MessageState| {
            ids.push(state.entry().message_id.to_string());
            ids.len() < most
        };
        store.visit_messages(None, after, visit).expect("the outbox is readable");
        ids
    };
    let all: Vec<_> = (1000..2200).map(|n| format!("verdict:cs_{n}")).collect();
    assert_eq!(visited(None, usize::MAX), all);
    let after = all[699].parse().expect("a valid id");
    assert_eq!(visited(Some(&after), 3), all[700..703]);
    let mail_id = MailId::verdict(&id(1700));
    commit(&mut journal, &[record(vec![RowWrite::remove::<OutboxMessage>(&mail_id.clone().into())])]);
    assert_eq!(visited(None, usize::MAX).len(), 1199);
    assert!(store.mail(&mail_id).expect("the mail is readable").is_none());
}
