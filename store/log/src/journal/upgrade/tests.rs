use super::*;
use crate::audit::logged_rows::RowComparison;
use crate::audit::segment_log::{EntryContent, SegmentLog};
use crate::base::bundle::Bundle;
use crate::base::row_write::RowWrite;
use crate::base::schema::SCHEMA;
use crate::base::schema::testing::{as_program_of, in_form_of};
use crate::base::watermark::WATERMARK_FILE;
use crate::journal::JournalRecord;
use crate::journal::testing::open_with;
use crate::journal::tests::{at, copy_dir, delivered, id, open, options, queued, rows_of, whole_log};
use crate::segments::SegmentFiles;
use domain_base::event::AuditEvent;
use domain_base::row::{Row, Table};
use domain_verdict::delivery::VerdictDelivery;
use domain_verdict::order::Order;
use domain_verdict::outbox::OutboxMessage;
use domain_verdict::session::SessionRecord;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The versions before the present one.
const EARLIER: [u32; 2] = [SCHEMA - 2, SCHEMA - 1];

/// The records of a store: deliveries, and mails that are queued, queued again and removed.
fn records() -> Vec<JournalRecord> {
    let mut records = Vec::new();
    for n in 0..60 {
        let mut delivery = delivered(n, 20 + 150 * n);
        if n % 4 == 0 {
            // the index has its order
            let session: SessionRecord = delivery.writes[1].read().expect("it stores a session");
            let ordered = SessionRecord { order: Some(Order::placed(at(n as i64))), ..session };
            delivery.writes[1] = RowWrite::put(&ordered);
        }
        records.push(delivery);
        records.push(queued(n));
        if n % 3 == 0 {
            records.push(queued(n));
        }
        if n % 7 == 0 {
            let mut sent = queued(n);
            sent.writes[0].value = None;
            sent.writes[0].index.clear();
            records.push(sent);
        }
    }
    records
}

/// Commits the records as the program of schema version `version` would, and starts it a few times.
fn fill_as_of(version: u32, dir: &Path) {
    as_program_of(version, || {
        for group in records().chunks_mut(11) {
            let (mut journal, _) = open(dir);
            for record in &mut *group {
                for write in &mut record.writes {
                    let table = write.row.table;
                    write.value = write.value.take().map(|value| in_form_of(version, table, &value));
                }
                let outcome = journal.commit(&[&*record]).expect("the commit succeeds").remove(0);
                outcome.expect("the record is not stale");
            }
        }
    });
}

fn store_of(version: u32) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    fill_as_of(version, dir.path());
    dir
}

/// The rows of features, and the counts. The log differs by the digests of the rows.
fn feature_rows(dir: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let rows = rows_of(dir).into_iter().map(|(key, value)| (key.to_vec(), value.to_vec()));
    rows.filter(|(key, _)| !OWN.contains(&rows::split_key(key).expect("a key").0)).collect()
}

/// The content of all files of a state directory. A sealed segment can be compressed or not.
fn files_of(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for path in paths_below(dir).into_iter().filter(|path| !path.ends_with("segments/spare")) {
        let mut content = fs::read(&path).expect("the file is readable");
        let is_compressed = path.extension().is_some_and(|extension| extension == "zst");
        if let Some(plain) = is_compressed.then(|| zstd::decode_all(&content[..]).ok()).flatten() {
            content = plain;
        }
        if path.parent().is_some_and(|folder| folder.ends_with("segments")) {
            let used = content.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            content.truncate(used);
        }
        files.insert(path.strip_prefix(dir).expect("it is below").with_extension(""), content);
    }
    files
}

fn paths_below(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).expect("the folder is readable");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths.flat_map(|path| if path.is_dir() { paths_below(&path) } else { vec![path] }).collect()
}

/// The files that differ from those that there were before.
fn changed_files(dir: &Path, before: &BTreeMap<PathBuf, Vec<u8>>) -> Vec<PathBuf> {
    let after = files_of(dir);
    let names = before.keys().chain(after.keys()).filter(|name| before.get(*name) != after.get(*name));
    names.cloned().collect()
}

fn compared(dir: &Path) -> crate::ComparedRows {
    let log = SegmentLog::open(dir).expect("the segments are there");
    let mut rows = RowComparison::default();
    let state = log.read_state(Some(&mut rows), |_| true, |_| {}).expect("the segments are whole");
    log.verify_mark(&state).expect("the high-water mark is whole");
    rows.finish(state.first_seq)
}

/// Logs the upgrades, as the daemon does.
fn log_upgrades(journal: &mut Journal) -> Vec<StoreUpgraded> {
    let upgrades = journal.unreported_upgrades().expect("the log is readable");
    for upgrade in &upgrades {
        let event = AuditEvent::new(at(0), None, upgrade.clone());
        let outcome = journal.commit(&[JournalRecord::from(event)]).expect("the commit succeeds").remove(0);
        outcome.expect("it is not stale");
    }
    upgrades
}

#[test]
fn upgraded_store_has_the_rows_of_one_that_the_present_program_has_filled() {
    let expected = store_of(SCHEMA);
    for version in EARLIER {
        let dir = store_of(version);
        let before = as_program_of(version, || whole_log(&open(dir.path()).1));
        assert!(feature_rows(expected.path()).keys().filter(|key| key.starts_with(b"orders/")).count() > 5);
        assert_ne!(feature_rows(dir.path()), feature_rows(expected.path()), "the forms differ");
        let (mut journal, store) = open(dir.path());
        assert_eq!(whole_log(&store), before, "no entry has changed");
        store.audit_all().expect("nothing is missing");
        assert!(store.get::<SessionRecord>(&id(3)).expect("the row has the present form").is_some());
        let upgrades = log_upgrades(&mut journal);
        let entries = before.len() as u64;
        let tables = vec!["outbox".to_owned(), "sessions".to_owned()];
        assert_eq!(upgrades, [StoreUpgraded { from_schema: version, to_schema: SCHEMA, entries, tables }]);
        drop((journal, store));
        assert_eq!(feature_rows(dir.path()), feature_rows(expected.path()), "version {version}");

        // the next start finds nothing to do, and the segments alone give the same rows
        fs::remove_dir_all(dir.path().join("store")).expect("the removal succeeds");
        let (mut journal, store) = open(dir.path());
        assert_eq!(log_upgrades(&mut journal), []);
        drop((journal, store));
        assert_eq!(feature_rows(dir.path()), feature_rows(expected.path()), "version {version}");

        let rows = compared(dir.path());
        assert_eq!((rows.differences, rows.uncovered), (Vec::new(), Vec::new()));
        assert!(rows.upgraded > 60 && rows.equal >= 60, "{} {}", rows.upgraded, rows.equal);

        let as_stored = files_of(dir.path());
        for program in EARLIER {
            let refused = as_program_of(program, || open_with(options(dir.path())).map(drop));
            let error = refused.expect_err("an earlier program does not open it");
            assert!(
                matches!(error, StoreError::Newer { found: SCHEMA, known, .. } if known == program),
                "{error}"
            );
        }
        assert_eq!(
            changed_files(dir.path(), &as_stored),
            [] as [PathBuf; 0],
            "an earlier program changes nothing"
        );
    }
}

#[test]
fn changed_row_of_an_upgraded_store_is_found_unless_the_upgrade_has_changed_its_form() {
    let dir = store_of(SCHEMA - 2);
    let (mut journal, store) = open(dir.path());
    log_upgrades(&mut journal);
    let revision_of = |store: &TableReader, n: usize| {
        let row = store.value(OutboxMessage::TABLE, &format!("verdict:cs_{n}")).expect("it is readable");
        row.expect("it is there").revision
    };
    let (before, lost) = (revision_of(&store, 1), revision_of(&store, 3));
    // a mail that was queued after the upgrade
    let outcome = journal.commit(&[queued(100)]).expect("the commit succeeds").remove(0);
    outcome.expect("it is not stale");
    let after = revision_of(&store, 100);
    drop((journal, store));
    assert_eq!(compared(dir.path()).differences, []);
    let mut segments =
        Segments::open(SegmentFiles::new(dir.path())).expect("they are whole").expect("they exist");
    let entries = segments.entries();
    let mut forged = RowBatch::default();
    let mut counts = None;
    segments
        .up_to_now()
        .replay(None, |_, rows| {
            counts = meta::counts_in(&rows).zip(meta::tree_in(&rows)).or_else(|| counts.take());
            true
        })
        .expect("they are readable");
    let (counts, tree) = counts.expect("a group has counts");
    meta::put_counts(&mut forged, &counts, &tree);
    rows::put(&mut forged, "outbox", b"verdict:cs_1", before, b"{}", 0);
    rows::put(&mut forged, "outbox", b"verdict:cs_2", before, b"{}", 0);
    rows::put(&mut forged, "outbox", b"verdict:cs_100", after, b"{}", 0);
    // one that no entry names, and an empty one that no entry reports as lost
    rows::put(&mut forged, "outbox", b"verdict:cs_900", 0, b"{}", 0);
    rows::put(&mut forged, "outbox", b"verdict:cs_3", lost, b"", 0);
    segments.append(entries, &mut forged).expect("the append succeeds");
    drop(segments);
    let differences = compared(dir.path()).differences;
    let names: Vec<_> = differences.iter().map(|difference| difference.row.as_str()).collect();
    assert_eq!(
        names,
        ["outbox/verdict:cs_100", "outbox/verdict:cs_2", "outbox/verdict:cs_3", "outbox/verdict:cs_900"]
    );
}

#[test]
fn interrupted_upgrade_is_repeated_or_completed_by_the_next_start() {
    let expected = store_of(SCHEMA);
    let version = SCHEMA - 2;
    let before = store_of(version);
    let after = tempfile::tempdir().expect("a directory");
    copy_dir(before.path(), after.path());
    drop(open(after.path()));
    let is_upgraded = |dir: &Path, what: &str| {
        let (mut journal, store) = open(dir);
        store.audit_all().expect("nothing is missing");
        assert_eq!(log_upgrades(&mut journal).len(), 1, "{what}");
        drop((journal, store));
        assert_eq!(feature_rows(dir), feature_rows(expected.path()), "{what}");
        assert_eq!(compared(dir).differences, [], "{what}");
        let left = ["store.new", "store.previous"].map(|name| dir.join(name).exists());
        assert_eq!(left, [false, false], "{what}");
    };
    let copy = |what: &str| {
        let dir = tempfile::tempdir().expect("a directory");
        copy_dir(before.path(), dir.path());
        (dir, what.to_owned())
    };
    // while the new database was built
    let (dir, what) = copy("an incomplete database");
    fs::create_dir(dir.path().join("store.new")).expect("the folder is created");
    fs::write(dir.path().join("store.new/db"), b"part").expect("the write succeeds");
    is_upgraded(dir.path(), &what);
    // after the mark was written
    let (dir, what) = copy("only the mark");
    let mut mark = Watermark::open(dir.path()).expect("it is readable").expect("it exists");
    assert!(mark.is_older());
    mark.now.walked = 0;
    mark.write_synced().expect("the write succeeds");
    is_upgraded(dir.path(), &what);
    // after the segment of the present version was begun, with and without an incomplete snapshot
    for has_snapshot in [false, true] {
        let (dir, what) = copy(&format!("a segment, and a snapshot: {has_snapshot}"));
        let mut mark = Watermark::open(dir.path()).expect("it is readable").expect("it exists");
        mark.now.walked = 0;
        mark.write_synced().expect("the write succeeds");
        let mut segments =
            Segments::open(SegmentFiles::new(dir.path())).expect("they are whole").expect("they exist");
        segments.begin_next(0).expect("the segment is created");
        drop(segments);
        if has_snapshot {
            let folder = dir.path().join("segments/snapshot-0000000003.new");
            fs::create_dir(&folder).expect("the folder is created");
            fs::write(folder.join("0000000001.zst"), b"part").expect("the write succeeds");
        }
        is_upgraded(dir.path(), &what);
    }
    // after the snapshot has replaced the segments, and before the database was replaced
    let (dir, what) = copy("the segments, and not the database");
    fs::remove_dir_all(dir.path().join("segments")).expect("the removal succeeds");
    fs::create_dir(dir.path().join("segments")).expect("the folder is created");
    copy_dir(&after.path().join("segments"), &dir.path().join("segments"));
    fs::copy(after.path().join(WATERMARK_FILE), dir.path().join(WATERMARK_FILE)).expect("the copy succeeds");
    let mut mark = Watermark::open(dir.path()).expect("it is readable").expect("it exists");
    mark.now.walked = 0;
    mark.write_synced().expect("the write succeeds");
    drop(mark);
    is_upgraded(dir.path(), &what);
}

#[test]
fn upgrade_that_cannot_succeed_changes_nothing() {
    let version = SCHEMA - 2;
    let with_row = |dir: &Path, at: usize, change: &dyn Fn(&'static Table, &[u8]) -> Vec<u8>| {
        as_program_of(version, || {
            let (mut journal, _) = open(dir);
            let mut record = delivered(200, 10);
            for (index, write) in record.writes.iter_mut().enumerate() {
                let (table, value) = (write.row.table, write.value.take().expect("it stores a row"));
                let in_form = in_form_of(version, table, &value);
                write.value = Some(if index == at { change(table, &value) } else { in_form });
            }
            journal.commit(&[record]).expect("the commit succeeds").remove(0).expect("it is not stale");
        });
    };
    let with_table = |dir: &Path, table: &str| {
        let mut segments =
            Segments::open(SegmentFiles::new(dir)).expect("they are whole").expect("they exist");
        let mut batch = RowBatch::default();
        rows::put(&mut batch, table, b"row", 1, b"{}", 0);
        let entries = segments.entries();
        segments.append(entries, &mut batch).expect("the append succeeds");
    };
    let dir = store_of(version);
    // a row in the form of the next version
    with_row(dir.path(), 1, &|table, value| in_form_of(version + 1, table, value));
    let [unreadable, unchanged] = [(); 2].map(|()| store_of(version));
    let renamed = |table, value: &[u8]| {
        let value = String::from_utf8(in_form_of(version, table, value)).expect("JSON is UTF-8");
        value.replace("session_id", "session").into_bytes()
    };
    with_row(unreadable.path(), 1, &renamed);
    with_row(unchanged.path(), 0, &renamed);
    let unknown = store_of(version);
    with_table(unknown.path(), "unknown");
    let refused = [
        (&dir, "sessions/cs_200"),
        (&unreadable, "sessions/cs_200"),
        (&unchanged, "verdicts/cs_200"),
        (&unknown, "unknown"),
    ];
    for (dir, named) in refused {
        let before = files_of(dir.path());
        let error = open_with(options(dir.path())).map(drop).expect_err("it is not upgraded");
        assert!(
            matches!(&error, StoreError::NotUpgraded { found, known: SCHEMA, fault, .. } if *found == version && fault.contains(named)),
            "{error}"
        );
        assert_eq!(changed_files(dir.path(), &before), [] as [PathBuf; 0], "{named}");
        as_program_of(version, || drop(open(dir.path())));
    }
    // a table that the present version has dropped is removed
    let dropped = store_of(version);
    with_table(dropped.path(), "made_up");
    drop(open(dropped.path()));
    assert_eq!(feature_rows(dropped.path()), feature_rows(store_of(SCHEMA).path()));
    // too little space
    let dir = store_of(version);
    let before = files_of(dir.path());
    let full = crate::StoreOptions { min_free_bytes: u64::MAX / 2, ..options(dir.path()) };
    let error = open_with(full).map(drop).expect_err("it is not upgraded");
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
    assert_eq!(changed_files(dir.path(), &before), [] as [PathBuf; 0]);
}

#[test]
fn damaged_store_of_an_earlier_schema_is_not_upgraded() {
    let version = SCHEMA - 1;
    let whole = store_of(version);
    let mut found = 0;
    for segment in 1..6 {
        let dir = tempfile::tempdir().expect("a directory");
        copy_dir(whole.path(), dir.path());
        let [path, copy] = ["segments", "segments.copy"]
            .map(|folder| dir.path().join(format!("{folder}/{segment:010}.zst")));
        let Ok(mut bytes) = fs::read(&path) else { continue };
        let at = bytes.len() / 2;
        bytes[at] ^= 1;
        fs::write(&path, &bytes).expect("the write succeeds");
        let with_copy = tempfile::tempdir().expect("a directory");
        copy_dir(dir.path(), with_copy.path());
        drop(open(with_copy.path()));
        assert_eq!(feature_rows(with_copy.path()), feature_rows(store_of(SCHEMA).path()), "its copy is read");
        fs::write(&copy, &bytes).expect("the write succeeds");
        let before = files_of(dir.path());
        let error = open_with(options(dir.path())).map(drop).expect_err("it is not upgraded");
        assert!(matches!(error, StoreError::Corrupt { .. } | StoreError::Short { .. }), "{error}");
        assert!(error.to_string().contains("the oracled that wrote it"), "{error}");
        assert_eq!(changed_files(dir.path(), &before), [] as [PathBuf; 0], "segment {segment}");
        found += 1;
    }
    assert!(found > 1, "some segments are sealed");
    // without its mark, the segments may be incomplete; with that of another history, they are other segments
    let dir = tempfile::tempdir().expect("a directory");
    copy_dir(whole.path(), dir.path());
    fs::remove_file(dir.path().join(WATERMARK_FILE)).expect("the removal succeeds");
    let foreign = tempfile::tempdir().expect("a directory");
    copy_dir(whole.path(), foreign.path());
    let mut mark = Watermark::open(foreign.path()).expect("it is readable").expect("it exists");
    mark.now.tree_check ^= 1;
    as_program_of(version, || mark.write_synced()).expect("the write succeeds");
    for dir in [dir, foreign] {
        let before = files_of(dir.path());
        let error = open_with(options(dir.path())).map(drop).expect_err("it is not upgraded");
        assert!(matches!(error, StoreError::Corrupt { .. } | StoreError::Short { .. }), "{error}");
        assert!(error.to_string().contains("the oracled that wrote it"), "{error}");
        assert_eq!(changed_files(dir.path(), &before), [] as [PathBuf; 0]);
    }
}

fn has_present_form<R: Row>(value: &[u8]) -> bool {
    serde_json::from_slice::<R>(value).is_ok()
}

#[test]
fn backup_of_an_earlier_schema_is_verified_in_the_present_form() {
    for version in EARLIER {
        let dir = store_of(version);
        let rows = compared(dir.path());
        assert_eq!((rows.differences, rows.upgraded), (Vec::new(), 0));
        let mut verdicts = 0;
        let log = SegmentLog::open(dir.path()).expect("the segments are there");
        log.read(|entry| {
            if let EntryContent::Line { rows: Some(rows), .. } = &entry.content {
                for n in 0..60 {
                    let Some(stored) = rows.stored(VerdictDelivery::TABLE, id(n).as_str()) else { continue };
                    let bundle = Bundle::from_bytes(rows.dir(), &stored.expect("it is whole"))
                        .expect("the bundle is whole");
                    for (table, check) in [
                        (VerdictDelivery::TABLE, has_present_form::<VerdictDelivery> as fn(&[u8]) -> bool),
                        (SessionRecord::TABLE, has_present_form::<SessionRecord>),
                    ] {
                        assert!(bundle.row(table).is_none_or(|row| check(&row.value)), "{n} {}", table.name);
                    }
                    verdicts += usize::from(bundle.row(VerdictDelivery::TABLE).is_some());
                }
            }
            true
        })
        .expect("the segments are whole");
        assert!(verdicts >= 60, "{verdicts}");
    }
}
