use super::*;
use crate::JournalRecord;
use crate::journal::tests::{at, fill, id, open, whole_log};
use crate::segments::Segments;
use domain_audit::leaf::hide_values;
use domain_audit::log_tree::TreeHash;
use domain_base::digest::Sha256Hex;
use domain_base::event::{AuditEvent, EventSeverity};
use domain_base::gate_path::GatePath;
use domain_verdict::event::CrosscheckError;
use std::fs;

/// The number and the line of each entry in `dir`, and the tree of the log.
fn read(dir: &Path) -> Result<(Vec<(u64, String)>, LogTree), StoreError> {
    let mut entries = Vec::new();
    let tree = SegmentLog::open(dir)?.read(|entry| {
        assert_eq!(entry.tree.size(), entry.seq);
        let EntryContent::Line { line, .. } = entry.content else { panic!("no entry was dropped") };
        entries.push((entry.seq, line.to_owned()));
        true
    })?;
    Ok((entries, tree))
}

/// A store with entries in several segments, rows that grow, and a row of several chunks. Returns its entries and its root.
fn filled(dir: &Path) -> (Vec<(u64, String)>, TreeHash) {
    let (mut journal, store) = open(dir);
    for n in 0..60 {
        fill(&mut journal, n * 3..n * 3 + 3);
        fill(&mut journal, 1000 + n..1001 + n);
    }
    // digits that compression leaves several chunks of
    let cause = (0..400_u32).map(|n| Sha256Hex::of(&n.to_be_bytes()).to_string()).collect();
    let long = CrosscheckError { path: GatePath::Submit, level: EventSeverity::Error, cause };
    let record = JournalRecord::from(AuditEvent::new(at(0), id(1), long));
    drop(journal.commit(&[record]).expect("the commit succeeds"));
    fill(&mut journal, 2000..2001);
    let root = store.log_head().1;
    (whole_log(&store).into_iter().map(|line| (line.seq, line.json)).collect(), root)
}

/// Writes the groups in `from` to new segments in `to`, with valid checksums, after `change` has changed each.
fn rewrite(from: &Path, to: &Path, mut change: impl FnMut(u64, &mut RowBatch)) {
    let origin =
        Segments::open(SegmentFiles::new(from)).expect("the segments are readable").expect("they exist");
    let mut copy: Option<Segments> = None;
    origin
        .up_to_now()
        .replay(None, |entries, mut rows| {
            change(entries, &mut rows);
            match &mut copy {
                Some(copy) => copy.append(entries, &mut rows).expect("the append succeeds"),
                None => {
                    copy = Some(
                        Segments::create(SegmentFiles::new(to), 7, rows).expect("the segments are created"),
                    );
                }
            }
            true
        })
        .expect("the segments are whole");
}

/// Replaces `from` by `to` in the rows of the log.
fn replace_in_log(rows: &mut RowBatch, from: &str, to: &str) {
    let log: Vec<_> =
        rows.range(rows::all(LOG)).filter_map(|(key, value)| Some((key.to_vec(), value?.to_vec()))).collect();
    for (key, mut value) in log {
        while let Some(at) = value.windows(from.len()).position(|part| part == from.as_bytes()) {
            value.splice(at..at + from.len(), to.bytes());
        }
        rows.insert(key, value);
    }
}

#[test]
fn segments_have_the_log_of_the_database_and_its_tree() {
    let dir = tempfile::tempdir().expect("a directory");
    let (log, root) = filled(dir.path());
    let (entries, tree) = read(dir.path()).expect("the segments are whole");
    assert_eq!(entries.len(), log.len());
    assert!(entries == log && tree.root() == root);
    // a daemon may have written only a part of the last group
    let last = dir.path().join("segments").join("0000000001");
    assert!(!last.exists(), "there are several segments");
}

#[test]
fn changed_swapped_or_missing_entry_is_found_although_all_checksums_are_valid() {
    let dir = tempfile::tempdir().expect("a directory");
    let (log, _) = filled(dir.path());
    let [first, second] = [41, 42].map(|index: usize| log[index].1.as_str());
    let renumbered = |line: &str, from: u64, to: u64| line.replace(&format!(":{from},"), &format!(":{to},"));
    let swapped = [renumbered(second, 43, 42), renumbered(first, 42, 43)];
    let changes: [&dyn Fn(&mut RowBatch); 4] = [
        &|rows| replace_in_log(rows, first, &first.replace("GREEN", "AMBER").replace("submit", "submxt")),
        &|rows| {
            replace_in_log(rows, &format!("{first}\n{second}"), &format!("{}\n{}", swapped[0], swapped[1]));
        },
        &|rows| replace_in_log(rows, &format!("{first}\n"), ""),
        &|rows| replace_in_log(rows, &format!("{first}\n{second}"), &format!("{second}\n{first}")),
    ];
    for (index, change) in changes.iter().enumerate() {
        let copy = tempfile::tempdir().expect("a directory");
        let mut has_changed = false;
        rewrite(dir.path(), copy.path(), |_, rows| {
            let before = rows.clone();
            change(rows);
            has_changed |= *rows != before;
        });
        assert!(has_changed, "{index}");
        let error = read(copy.path()).expect_err("an entry was changed");
        assert!(matches!(&error, StoreError::Corrupt { detail, .. } if detail.contains('4')), "{error}");
    }
    let copy = tempfile::tempdir().expect("a directory");
    rewrite(dir.path(), copy.path(), |_, _| {});
    assert_eq!(read(copy.path()).expect("nothing was changed").0.len(), log.len());
}

#[test]
fn row_that_contradicts_its_earlier_form_is_found() {
    let dir = tempfile::tempdir().expect("a directory");
    let (log, _) = filled(dir.path());
    let copy = tempfile::tempdir().expect("a directory");
    // only the first form of the row is changed, so the database has the right line in the end
    let mut is_changed = false;
    rewrite(dir.path(), copy.path(), |_, rows| {
        let before = rows.clone();
        if !is_changed {
            replace_in_log(rows, &log[0].1, &log[0].1.replace("quick", "quack"));
        }
        is_changed |= *rows != before;
    });
    assert!(is_changed && matches!(read(copy.path()), Err(StoreError::Corrupt { .. })));
}

#[test]
fn missing_segment_or_end_of_the_log_is_found() {
    let dir = tempfile::tempdir().expect("a directory");
    filled(dir.path());
    // as a backup is
    fs::remove_dir_all(dir.path().join("segments.copy")).expect("the removal succeeds");
    let segments = dir.path().join("segments");
    let name = |path: &Path| path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default().to_owned();
    let entries = fs::read_dir(&segments).expect("the folder is readable");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| name(path).parse::<u64>().is_ok());
    paths.sort();
    for path in [&paths[1], &paths[paths.len() - 1]] {
        let bytes = fs::read(path).expect("the file is readable");
        fs::remove_file(path).expect("the removal succeeds");
        assert!(matches!(read(dir.path()), Err(StoreError::Short { .. })), "{}", path.display());
        fs::write(path, bytes).expect("the write succeeds");
    }
    // the end of the last segment looks like a torn write
    let last = &paths[paths.len() - 1];
    let bytes = fs::read(last).expect("the file is readable");
    let used = bytes.iter().rposition(|byte| *byte != 0).expect("it has groups");
    fs::write(last, &bytes[..used]).expect("the write succeeds");
    assert!(matches!(read(dir.path()), Err(StoreError::Short { .. })));
}

#[test]
fn row_with_hidden_values_counts_as_the_same() {
    let line = r#"{"seq":1,"reason":"x","salts":{"reason":"000102030405060708090a0b0c0d0e0f"}}"#;
    let hidden = hide_values(line, |_| true).expect("an entry");
    let next = r#"{"seq":2}"#;
    let (known, longer) = (format!("{line}\n"), format!("{hidden}\n{next}\n"));
    for (known, text) in [(&known, &longer), (&format!("{hidden}\n"), &format!("{line}\n{next}\n"))] {
        assert_eq!(rest_after(known, text), Some("{\"seq\":2}\n"));
    }
    assert_eq!(rest_after(&known.replace("\"x\"", "\"y\""), &longer), None);
    assert_eq!(rest_after(&format!("{known}{next}\n{next}\n"), &longer), None);
}
