//! `oraclectl verify-log` for a state directory or a backup.

use super::export_log;
use super::log_keys::{LogKeys, refused};
use super::replay_report::{LogReplay, ReplayReport};
use crate::base::error::CtlError;
use crate::base::lines::progress_bar;
use crate::base::output::{format_count, format_pairs, print_json};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use oracled_api::audit::backup::CHECKPOINT_FILE;
use oracled_domain::audit::checkpoint::Checkpoint;
use oracled_domain::audit::leaf::is_erased_form;
use oracled_domain::audit::log_tree::LogTree;
use oracled_store::{SegmentEntry, SegmentLog, StoreError};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Take, Write};
use std::path::{Path, PathBuf};

const MIRROR_FILE: &str = "oracle_log.jsonl";
/// The member after the number of an entry that logs a start of the daemon.
const STARTED: &str = ",\"event\":\"service_started\"";

/// A verified log.
#[derive(Debug, Serialize)]
pub(super) struct VerifiedLog {
    /// The number of entries.
    pub(super) size: u64,
    /// The root of the Merkle tree, in Base64.
    pub(super) root: String,
    /// The number of segments.
    segments: u64,
    /// The sizes at which the log was compared with a checkpoint.
    checkpoints: Vec<u64>,
    /// The number of lines of `oracle_log.jsonl` that were compared; `None` without the file.
    lines: Option<u64>,
    /// The replayed decisions, with `--replay`.
    #[serde(skip_serializing_if = "Option::is_none")]
    replay: Option<ReplayReport>,
    /// The last start of the daemon, which names the public key of the log; `None` if the log has none.
    #[serde(flatten)]
    start: Option<ServiceStart>,
}

/// An entry `service_started`.
#[derive(Debug, Serialize, Deserialize)]
struct ServiceStart {
    /// The number of the entry.
    #[serde(rename(serialize = "log_key_since"))]
    seq: u64,
    log_key: String,
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
    let verified = verify_directory(dir, &checkpoints, replay)?;
    check_key(&verified, keys)?;
    if is_json {
        print_json(out, &verified)?;
    } else {
        writeln!(out, "{}", format_verified(&verified))?;
        verified.replay.as_ref().map_or(Ok(()), |replay| replay.print(out))?;
    }
    verified.replay.as_ref().map_or(Ok(()), ReplayReport::check)
}

/// Checks that the log is that of one of the keys.
fn check_key(VerifiedLog { start, .. }: &VerifiedLog, keys: &LogKeys) -> Result<(), CtlError> {
    match start {
        None => Err(refused(
            "the log has no entry `service_started`, which names its key: it is not the log of an oracled daemon".to_owned(),
        )),
        Some(ServiceStart { log_key, .. }) if keys.has(log_key) => Ok(()),
        Some(ServiceStart { seq, log_key }) => Err(refused(format!(
            "since entry {seq} the key of the log is {log_key}, and `--key` does not have it; name it too, if you trust it"
        ))),
    }
}

/// The result, for people.
fn format_verified(verified: &VerifiedLog) -> String {
    let VerifiedLog { size, root, segments, checkpoints, lines, start, .. } = verified;
    let compared = match checkpoints.as_slice() {
        [] => "with nothing; name a checkpoint with --since, or compare size and root yourself".to_owned(),
        sizes => {
            let sizes: Vec<_> = sizes.iter().map(u64::to_string).collect();
            format!("with the checkpoints at entry {}", sizes.join(" and "))
        }
    };
    let mut pairs = vec![
        ("log", format!("{size} entries, root {root}")),
        ("segments", format!("{segments}, without gaps")),
        ("compared", compared),
    ];
    if let Some(ServiceStart { seq, log_key }) = start {
        pairs.push(("key", format!("{log_key}, named by entry {seq}")));
    }
    if let Some(lines) = lines {
        pairs.push((MIRROR_FILE, format!("{} with the same text", format_count(*lines, "line", "lines"))));
    }
    format_pairs(&pairs)
}

/// Reads the log in `dir`, compares it with the checkpoints and with `oracle_log.jsonl`, and replays its decisions.
pub(super) fn verify_directory(
    dir: &Path,
    checkpoints: &[ComparedCheckpoint],
    mut replay: Option<LogReplay>,
) -> Result<VerifiedLog, CtlError> {
    // before the segments: a daemon writes an entry to them first
    let mut mirror = MirrorLines::open(&dir.join(MIRROR_FILE))?;
    let log = SegmentLog::open(dir).map_err(store_error)?;
    let bar = progress_bar(Some(log.segments()), "verified");
    let (mut fault, mut compared, mut start) = (Ok(()), Vec::new(), None);
    let tree = log.read(|entry| {
        bar.set_position(entry.segment - 1);
        let is_start = entry.line.split_once(STARTED).is_some_and(|(head, _)| !head.contains(','));
        if is_start {
            start = serde_json::from_str::<ServiceStart>(entry.line).ok().or(start.take());
        }
        fault = compare_roots(checkpoints, &entry, &mut compared)
            .and_then(|()| mirror.as_mut().map_or(Ok(()), |mirror| mirror.compare(&entry)))
            .and_then(|()| replay.as_mut().map_or(Ok(()), |replay| replay_entry(replay, &entry)));
        fault.is_ok()
    });
    bar.finish_and_clear();
    let tree = tree.map_err(store_error)?;
    fault?;
    check_sizes(checkpoints, &tree)?;
    let lines = mirror.map(|mirror| mirror.finish(&tree)).transpose()?;
    let root = BASE64_STANDARD.encode(tree.root());
    let replay = replay.map(LogReplay::finish);
    Ok(VerifiedLog {
        size: tree.size(),
        root,
        segments: log.segments(),
        checkpoints: compared,
        lines,
        start,
        replay,
    })
}

fn replay_entry(replay: &mut LogReplay, entry: &SegmentEntry<'_>) -> Result<(), CtlError> {
    replay.add(entry.line, |session_id| entry.rows.verdict(session_id).map_err(store_error))
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

/// The lines of `oracle_log.jsonl`. The file can begin after the first entry, and end before the last one.
struct MirrorLines {
    file: PathBuf,
    input: Take<BufReader<File>>,
    /// The next line, with its line end.
    next: String,
    /// The number of the first entry in the file.
    first: u64,
    /// The number of lines that were compared.
    lines: u64,
}

impl MirrorLines {
    /// Opens the file, and reads its first line; `None` if the file does not exist.
    fn open(file: &Path) -> Result<Option<Self>, CtlError> {
        let read = |cause: io::Error| CtlError::Read { file: file.display().to_string(), cause };
        let opened = match File::open(file) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(read)?,
        };
        let len = opened.metadata().map_err(read)?.len();
        let input = BufReader::new(opened).take(len);
        let mut lines = Self { file: file.to_owned(), input, next: String::new(), first: 1, lines: 0 };
        lines.read_next()?;
        let number = lines.next.strip_prefix("{\"seq\":").and_then(|rest| rest.split_once(','));
        // if the first line has no number, the comparison with entry 1 reports it
        lines.first = number.and_then(|(number, _)| number.parse().ok()).unwrap_or(1);
        Ok(Some(lines))
    }

    /// Reads the next line. A line without its end, which the daemon has not completed, counts as none.
    fn read_next(&mut self) -> Result<(), CtlError> {
        self.next.clear();
        let read = self.input.read_line(&mut self.next);
        read.map_err(|cause| CtlError::Read { file: self.file.display().to_string(), cause })?;
        if !self.next.ends_with('\n') {
            self.next.clear();
        }
        Ok(())
    }

    fn compare(&mut self, entry: &SegmentEntry<'_>) -> Result<(), CtlError> {
        if entry.seq < self.first || self.next.is_empty() {
            return Ok(());
        }
        let line = self.next.strip_suffix('\n').unwrap_or_default();
        // an erasure in progress rewrites the segments first
        if line != entry.line && !is_erased_form(entry.line, line.as_bytes()) {
            let (file, line, segment, seq) = (self.file.display(), self.lines + 1, entry.segment, entry.seq);
            return Err(refused(format!(
                "{file}, line {line}: the line is not that of entry {seq} (segment {segment}); the daemon writes the file again \
                 at its next start"
            )));
        }
        self.lines += 1;
        self.read_next()
    }

    /// Checks that no line follows those of the log's entries. Returns the number of lines.
    fn finish(self, tree: &LogTree) -> Result<u64, CtlError> {
        if self.next.is_empty() {
            return Ok(self.lines);
        }
        let (file, line, size) = (self.file.display(), self.lines + 1, tree.size());
        Err(refused(format!("{file}, line {line}: the log in the segments has only {size} entries")))
    }
}

/// The error for a log that cannot be read, or that has faults.
fn store_error(error: StoreError) -> CtlError {
    let exit_code = match error {
        StoreError::Corrupt { .. } | StoreError::Short { .. } => 1,
        _ => 5,
    };
    CtlError::Verb { message: error.to_string(), exit_code, was_printed: false }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oracled_domain::audit::checkpoint::LogSigner;
    use std::fs;

    fn key(secret: u8) -> String {
        LogSigner::new("oracled/1", &[secret; 32]).key().to_string()
    }

    #[test]
    fn log_of_another_key_or_of_none_is_refused() {
        let keys = LogKeys::read(&[key(1), key(2)]).expect("keys");
        let log = |start| VerifiedLog {
            size: 9,
            root: String::new(),
            segments: 1,
            checkpoints: Vec::new(),
            lines: None,
            start,
        };
        let named = |secret| Some(ServiceStart { seq: 4, log_key: key(secret) });
        assert!(check_key(&log(named(2)), &keys).is_ok());
        for start in [named(3), None] {
            let refused = check_key(&log(start), &keys);
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
