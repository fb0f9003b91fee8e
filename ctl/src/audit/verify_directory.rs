//! `oraclectl verify-log` for a state directory or a backup.

use super::backup_files::verify_manifest;
use super::export_log;
use super::log_keys::{LogKeys, refused};
use super::log_mirror::MirrorLines;
use super::replay_report::{LogReplay, ReplayReport};
use super::verify_files::VerifiedFiles;
use crate::base::error::CtlError;
use crate::base::input_lines::progress_bar;
use crate::base::output::{format_count, format_pairs, print_json};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use domain_audit::checkpoint::Checkpoint;
use domain_audit::log_tree::LogTree;
use domain_base::visible::visible_line;
use oracled_api::audit::backup::{CHECKPOINT_FILE, MANIFEST_FILE};
use oracled_store::{
    ComparedRows, EntryContent, RowComparison, RowDifference, SegmentEntry, SegmentLog, StoreError,
};
use serde::Serialize;
use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};

/// A verified log.
#[derive(Debug, Serialize)]
pub(super) struct VerifiedLog {
    /// The number of entries.
    pub(super) size: u64,
    /// The first entry that was not dropped.
    first_seq: u64,
    /// The root of the Merkle tree, in Base64.
    pub(super) root: String,
    /// The number of segments.
    segments: u64,
    /// The sizes at which the log was compared with a checkpoint.
    checkpoints: Vec<u64>,
    /// The number of lines of `oracle_log.jsonl` that were compared; `None` without the file.
    lines: Option<u64>,
    /// The rows that were compared with the log.
    rows: VerifiedRows,
    /// The last public key that the log names; `None` if it names none.
    pub(super) log_key: Option<String>,
    /// The sessions with a verdict that the policy holds, which is encrypted.
    #[serde(skip)]
    pub(super) held: BTreeSet<String>,
    /// The other files.
    #[serde(flatten)]
    files: VerifiedFiles,
    /// The replayed decisions, with `--replay`.
    #[serde(skip_serializing_if = "Option::is_none")]
    replay: Option<ReplayReport>,
}

/// The rows that were compared with the digests in the log.
#[derive(Debug, Serialize)]
struct VerifiedRows {
    /// The number of rows that are as their entries name them.
    equal: u64,
    /// The number of rows whose digests were erased or dropped from the log.
    unnamed: u64,
    /// The number of rows whose form an upgrade has changed: only their entries were compared.
    upgraded: u64,
    /// The rows that every copy has lost, as the log says.
    lost: Vec<String>,
}

/// A checkpoint that the log must continue or equal.
pub(super) struct ComparedCheckpoint {
    file: PathBuf,
    checkpoint: Checkpoint,
    /// Whether the log ends with the checkpoint.
    is_end: bool,
}

/// The file of the checkpoint that witnesses must have cosigned: that of an export, or that of `--since`.
pub(super) fn cosigned_file(dir: &Path, since: Option<&Path>) -> Result<PathBuf, CtlError> {
    if export_log::is_export(dir) {
        return Ok(dir.join(CHECKPOINT_FILE));
    }
    let missing = || {
        let message =
            "`--witness` for a state directory or a backup needs `--since` with a cosigned checkpoint";
        CtlError::Usage(message.to_owned())
    };
    since.map(Path::to_owned).ok_or_else(missing)
}

/// Verifies the log in `dir`, and prints the result.
pub(super) fn run(
    dir: &Path,
    keys: &LogKeys,
    since: Option<&Path>,
    replay: Option<LogReplay>,
    is_json: bool,
    out: &mut dyn Write,
) -> Result<(), CtlError> {
    if export_log::is_export(dir) {
        return export_log::verify(dir, keys, since, replay, is_json, out);
    }
    let mut checkpoints = Vec::new();
    if let Some(file) = since {
        let checkpoint = keys.read_checkpoint(file)?;
        checkpoints.push(ComparedCheckpoint { file: file.to_owned(), checkpoint, is_end: false });
    }
    let file = dir.join(CHECKPOINT_FILE);
    if file.exists() {
        let checkpoint = keys.read_checkpoint(&file)?;
        checkpoints.push(ComparedCheckpoint::of_backup(file, checkpoint));
    }
    if checkpoints.iter().any(|compared| compared.is_end) || dir.join(MANIFEST_FILE).exists() {
        verify_manifest(dir, keys)?;
    }
    let verified = verify_directory(dir, &checkpoints, replay)?;
    check_key(verified.log_key.as_deref(), keys)?;
    if is_json {
        print_json(out, &verified)?;
    } else {
        writeln!(out, "{}", format_verified(&verified))?;
        verified.replay.as_ref().map_or(Ok(()), |replay| replay.print(out))?;
    }
    verified.replay.as_ref().map_or(Ok(()), ReplayReport::check)
}

/// Checks that the log is that of one of the keys.
fn check_key(log_key: Option<&str>, keys: &LogKeys) -> Result<(), CtlError> {
    match log_key {
        None => Err(refused(
            "the log has no entry `service_started`, which names its key: it is not the log of an oracled daemon".to_owned(),
        )),
        Some(log_key) if keys.has(log_key) => Ok(()),
        Some(log_key) => Err(refused(format!(
            "the last key that the log names is {log_key}, and `--key` does not have it; name it too, if you trust it"
        ))),
    }
}

/// The result, for people.
fn format_verified(verified: &VerifiedLog) -> String {
    let VerifiedLog { size, first_seq, root, segments, checkpoints, lines, rows, log_key, files, .. } =
        verified;
    let compared = match checkpoints.as_slice() {
        [] => "with nothing; name a checkpoint with --since, or compare size and root yourself".to_owned(),
        sizes => {
            let sizes: Vec<_> = sizes.iter().map(u64::to_string).collect();
            format!("with the checkpoints at entry {}", sizes.join(" and "))
        }
    };
    let mut pairs = vec![
        ("log", format!("{}, root {root}", format_count(*size, "entry", "entries"))),
        ("segments", format!("{segments}, without gaps")),
        ("compared", compared),
    ];
    if *first_seq > 1 {
        let last = first_seq - 1;
        pairs.push(("dropped", format!("the entries 1 to {last}; their hashes are in the tree")));
    }
    if let Some(log_key) = log_key {
        pairs.push(("key", format!("{log_key}, the last one that the log names")));
    }
    if let Some(lines) = lines {
        pairs.push((
            "oracle_log.jsonl",
            format!("{} with the same text", format_count(*lines, "line", "lines")),
        ));
    }
    pairs.push(("rows", format!("{} as the log names them", format_count(rows.equal, "row", "rows"))));
    if rows.unnamed > 0 {
        let unnamed = format_count(rows.unnamed, "row", "rows");
        pairs.push(("not verified", format!("{unnamed}: the digests were erased or dropped from the log")));
    }
    if rows.upgraded > 0 {
        let upgraded = format_count(rows.upgraded, "row", "rows");
        pairs.push((
            "upgraded",
            format!("{upgraded}: an upgrade has changed their form; only their entries were compared"),
        ));
    }
    if !rows.lost.is_empty() {
        let lost: Vec<_> = rows.lost.iter().map(|row| visible_line(row)).collect();
        pairs.push(("lost", format!("{}, as the log says", lost.join(", "))));
    }
    pairs.extend(files.rows());
    format_pairs(&pairs)
}

/// Reads the log in `dir`, compares it with the checkpoints, with `oracle_log.jsonl`, and with all other files that have data, and
/// replays its decisions.
pub(super) fn verify_directory(
    dir: &Path,
    checkpoints: &[ComparedCheckpoint],
    mut replay: Option<LogReplay>,
) -> Result<VerifiedLog, CtlError> {
    // before the segments: a daemon writes an entry to them first
    let mut mirrors = MirrorLines::open_all(dir)?;
    let log = SegmentLog::open(dir).map_err(store_error)?;
    let bar = progress_bar(Some(log.segments()), "verified");
    let (mut fault, mut compared, mut segment) = (Ok(()), Vec::new(), 0);
    let mut rows = RowComparison::default();
    let state = log.read_state(Some(&mut rows), |entry| {
        if entry.segment != segment {
            bar.inc(u64::from(segment > 0));
            segment = entry.segment;
        }
        fault = compare_roots(checkpoints, &entry, &mut compared)
            .and_then(|()| mirrors.iter_mut().try_for_each(|mirror| mirror.compare(&entry)))
            .and_then(|()| replay.as_mut().map_or(Ok(()), |replay| replay_entry(replay, &entry)));
        fault.is_ok()
    });
    bar.finish_and_clear();
    let state = state.map_err(store_error)?;
    fault?;
    check_sizes(checkpoints, &state.tree)?;
    let (size, root) = (state.tree.size(), BASE64_STANDARD.encode(state.tree.root()));
    let lines = MirrorLines::finish(&mirrors, size)?;
    let files = log.verify_files(&state).map_err(store_error)?;
    let rows = rows.finish(state.first_seq);
    check_rows(&rows)?;
    let files = VerifiedFiles::new(dir, &state, &files, mirrors)?;
    let (replay, log_key, held) = (replay.map(LogReplay::finish), state.log_key, state.held);
    Ok(VerifiedLog {
        size,
        first_seq: state.first_seq,
        root,
        segments: log.segments(),
        checkpoints: compared,
        lines,
        rows: VerifiedRows {
            equal: rows.equal,
            unnamed: rows.unnamed,
            upgraded: rows.upgraded,
            lost: rows.lost,
        },
        log_key,
        held,
        files,
        replay,
    })
}

/// Checks that each row is as the log names it.
fn check_rows(compared: &ComparedRows) -> Result<(), CtlError> {
    let list = |difference: &RowDifference| match *difference {
        RowDifference { ref row, named: None, .. } => format!("{row}: no entry names it"),
        RowDifference { ref row, named: Some(named), stored: None } => {
            format!("{row}: it is missing, and entry {named} set it")
        }
        RowDifference { ref row, named: Some(named), stored: Some(stored) } => format!(
            "{row}: it differs from the digest in entry {named}, which set it, and says that entry {stored} did"
        ),
    };
    let uncovered = compared.uncovered.iter().map(|seq| {
        format!("the digests of the rows of entry {seq} are hidden, and no later entry reports their erasure")
    });
    let differences = compared.differences.iter();
    let differences = differences.map(|difference| visible_line(&list(difference)).into_owned());
    let listed: Vec<_> = differences.chain(uncovered).collect();
    if listed.is_empty() {
        return Ok(());
    }
    Err(refused(format!(
        "these rows were changed by another program; use another copy, such as a backup: {}",
        listed.join("; ")
    )))
}

fn replay_entry(replay: &mut LogReplay, entry: &SegmentEntry<'_>) -> Result<(), CtlError> {
    let EntryContent::Line { line, rows } = &entry.content else {
        replay.note_dropped();
        return Ok(());
    };
    replay.add(line, |session_id| match rows {
        Some(rows) => rows.verdict(session_id).map_err(store_error),
        None => Ok(None),
    })
}

impl ComparedCheckpoint {
    /// The checkpoint of a backup, at which its log ends.
    pub(super) const fn of_backup(file: PathBuf, checkpoint: Checkpoint) -> Self {
        Self { file, checkpoint, is_end: true }
    }
}

fn compare_roots(
    checkpoints: &[ComparedCheckpoint],
    entry: &SegmentEntry<'_>,
    compared: &mut Vec<u64>,
) -> Result<(), CtlError> {
    for ComparedCheckpoint { file, checkpoint, .. } in checkpoints {
        if checkpoint.size != entry.seq {
            continue;
        }
        if entry.tree.root() != checkpoint.root {
            return Err(refused(format!(
                "segment {}, entry {}: the first {} entries are not those of the checkpoint in {}; one of them was changed, or \
                 the log is another one",
                entry.segment,
                entry.seq,
                checkpoint.size,
                file.display()
            )));
        }
        compared.push(checkpoint.size);
    }
    Ok(())
}

/// Checks that the log is as long as the checkpoints.
fn check_sizes(checkpoints: &[ComparedCheckpoint], tree: &LogTree) -> Result<(), CtlError> {
    for ComparedCheckpoint { file, checkpoint, is_end } in checkpoints {
        let (size, expected) = (tree.size(), checkpoint.size);
        if size < expected || *is_end && size > expected {
            return Err(refused(format!(
                "the log has {size} entries, and the checkpoint in {} has {expected}",
                file.display()
            )));
        }
    }
    Ok(())
}

/// The error for a log that cannot be read, or that has faults.
fn store_error(error: StoreError) -> CtlError {
    let exit_code = match error {
        StoreError::Corrupt { .. } | StoreError::Short { .. } | StoreError::SourceFile { .. } => 1,
        _ => 5,
    };
    CtlError::Verb { message: error.to_string(), exit_code, was_printed: false }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain_audit::checkpoint::LogSigner;
    use std::fs;

    fn key(secret: u8) -> String {
        LogSigner::new("oracled/1", &[secret; 32]).key().to_string()
    }

    #[test]
    fn log_of_another_key_or_of_none_is_refused() {
        let keys = LogKeys::read(&[key(1), key(2)]).expect("keys");
        assert!(check_key(Some(&key(2)), &keys).is_ok());
        for log_key in [Some(key(3)), None] {
            let refused = check_key(log_key.as_deref(), &keys);
            assert!(matches!(refused, Err(CtlError::Verb { exit_code: 1, .. })), "{refused:?}");
        }
    }

    #[test]
    fn state_directory_with_a_folder_of_tiles_is_not_an_export() {
        let dir = tempfile::tempdir().expect("a directory");
        fs::create_dir(dir.path().join("tile")).expect("the folder is created");
        assert!(export_log::is_export(dir.path()));
        fs::create_dir(dir.path().join("segments")).expect("the folder is created");
        assert!(!export_log::is_export(dir.path()));
    }
}
