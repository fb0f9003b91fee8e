//! `oraclectl verify-log` for a state directory or a backup.

use super::backup::verify_manifest;
use super::export_log;
use crate::audit::verification::{LogKeys, LogReplay, ReplayReport, refused};
use crate::base::error::CtlError;
use crate::base::input::{decode_secret_key, progress_bar};
use crate::base::output::{format_pairs, print_json};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use domain_audit::checkpoint::{Checkpoint, LogKey, LogSigner};
use domain_audit::leaf::leaf_of;
use domain_audit::log_tree::{LogTree, leaf_hash};
use domain_audit::wire::{CHECKPOINT_FILE, MANIFEST_FILE};
use domain_base::text_form::visible_line;
use domain_base::wording::format_count;
use oracled_store::{
    ComparedRows, EntryContent, LogState, LoggedState, RowComparison, RowDifference, SegmentEntry,
    SegmentLog, StoreError, VerifiedStateFiles, committed_verdict, is_mirror_line,
};
use serde::Serialize;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read, Take, Write};
use std::path::{Path, PathBuf};
use std::{fs, io};

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
    let state = LoggedState::read(&log, Some(&mut rows), |entry| {
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
    check_sizes(checkpoints, &state.log.tree)?;
    let (size, root) = (state.log.tree.size(), BASE64_STANDARD.encode(state.log.tree.root()));
    let lines = MirrorLines::finish(&mirrors, size)?;
    let files = state.verify_files(&log).map_err(store_error)?;
    let rows = rows.finish(state.log.first_seq);
    check_rows(&rows)?;
    let files = VerifiedFiles::new(dir, &state.log, &files, mirrors)?;
    let (replay, log_key, held) = (replay.map(LogReplay::finish), state.log.log_key, state.held);
    Ok(VerifiedLog {
        size,
        first_seq: state.log.first_seq,
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
        Some(rows) => committed_verdict(rows, session_id).map_err(store_error),
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
    let message = match error {
        StoreError::Corrupt { .. } | StoreError::Short { .. } => format!(
            "{error}. Before that, start the daemon: it repairs a segment from its copy, and says if it cannot"
        ),
        error => error.to_string(),
    };
    CtlError::Verb { message, exit_code, was_printed: false }
}

/// Folders and files that the daemon recreates from others. Names of folders end with `/`.
const DERIVED: [&str; 9] = [
    "checks.json",
    "ground/work/",
    "segments.copy/",
    "segments/spare",
    "series.json",
    "space_reserve",
    "store.new/",
    "store.previous/",
    "store/",
];

/// The key that signs checkpoints, unless it is a systemd credential.
const LOG_KEY_FILE: &str = "log.key";

/// The files besides the segments.
#[derive(Debug, Serialize)]
struct VerifiedFiles {
    /// The number of sorted files of sources.
    sorted: u64,
    /// The number of archived payloads.
    payloads: u64,
    /// Files and folders that were not verified, since the daemon recreates them from others.
    derived: Vec<&'static str>,
    /// Differences that can have another cause than a change.
    notes: Vec<FileNote>,
}

impl VerifiedFiles {
    /// The result for the files in `dir`. `files` are those of the store, `names` those in the directory.
    pub(super) fn new(
        dir: &Path,
        state: &LogState,
        files: &VerifiedStateFiles,
        mirrors: Vec<MirrorLines>,
    ) -> Result<Self, CtlError> {
        let VerifiedStateFiles { sources, mark_behind } = files;
        let name_in = |path: &Path| path.strip_prefix(dir).unwrap_or(path).display().to_string();
        let mut notes = Vec::new();
        notes.extend(state.remains.iter().map(|remains| {
            let note = format!(
                "the bytes from byte {} on are no group: a write was interrupted, or they were changed; they have no effect",
                remains.at
            );
            FileNote::new(format!("segments/{:010}", remains.segment), note)
        }));
        notes.extend(state.damage.iter().map(|damage| {
            FileNote::new(
                "segments",
                format!("{damage}; its copy in segments.copy was verified in its place"),
            )
        }));
        notes.extend(mark_behind.map(|entries| {
            let size = state.tree.size();
            FileNote::new(
                "watermark",
                format!("it is of entry {entries}, and the log has {size} entries: a crash or an older copy"),
            )
        }));
        let unnamed = "no row names this file: an interrupted run, or a file that oracled did not create";
        notes.extend(sources.unnamed.iter().map(|path| FileNote::new(name_in(path), unnamed)));
        let absent = "this payload is missing, and no run needs it";
        notes.extend(sources.absent.iter().map(|path| FileNote::new(name_in(path), absent)));
        let mut derived = Vec::new();
        for name in list_files(dir)? {
            if let Some(known) = DERIVED.iter().find(|known| is_in(&name, known)) {
                derived.push(*known);
            } else {
                notes.extend(note_of(dir, &name, state)?);
            }
        }
        derived.dedup();
        // a backup has neither the key nor the mirror
        let is_backup = dir.join(MANIFEST_FILE).exists();
        if state.log_key.is_some() && !is_backup && !dir.join(LOG_KEY_FILE).exists() {
            let note = "the file is missing: it was removed, or the key is a systemd credential";
            notes.push(FileNote::new(LOG_KEY_FILE, note));
        }
        if !is_backup {
            notes.extend(MirrorLines::notes(mirrors, state.first_seq, state.tree.size()));
        }
        Ok(Self { sorted: sources.sorted, payloads: sources.payloads, derived, notes })
    }

    /// The rows for people.
    pub(super) fn rows(&self) -> Vec<(&'static str, String)> {
        let Self { sorted, payloads, derived, notes } = self;
        let files = format_count(*sorted, "file of facts", "files of facts");
        let mut rows =
            vec![("sources", format!("{files}, {}", format_count(*payloads, "payload", "payloads")))];
        if !derived.is_empty() {
            rows.push(("not verified", format!("{}: the daemon recreates them", derived.join(", "))));
        }
        rows.extend(notes.iter().map(|FileNote { file, note }| ("note", format!("{file}: {note}"))));
        rows
    }
}

/// Whether the file `name` is `known`, or is in that folder.
fn is_in(name: &str, known: &str) -> bool {
    if known.ends_with('/') { name.starts_with(known) } else { name == known }
}

/// The note about a file of a name that is unknown, or whose content has a fault.
fn note_of(dir: &Path, name: &str, state: &LogState) -> Result<Option<FileNote>, CtlError> {
    let (folder, file) = name.rsplit_once('/').unwrap_or(("", name));
    let is_segment = |file: &str| {
        let number = file.strip_suffix(".zst").unwrap_or(file);
        number.len() == 10 && number.bytes().all(|byte| byte.is_ascii_digit())
    };
    let is_known = match folder {
        "" => {
            file == "watermark"
                || MirrorLines::is_mirror(file)
                || [CHECKPOINT_FILE, MANIFEST_FILE].contains(&file)
        }
        "segments" => is_segment(file),
        _ if folder.starts_with("segments/snapshot-") => is_segment(file),
        // the store lists the files that no row names
        "ground/facts" | "ground/raw" => true,
        _ => false,
    };
    if is_known {
        return Ok(None);
    }
    if folder.is_empty() && file.ends_with(".key") {
        return key_note(dir, file, state.log_key.as_deref());
    }
    let note =
        if file.ends_with(".new") { "the file is incomplete" } else { "oracled did not create this file" };
    Ok(Some(FileNote::new(name, note)))
}

/// Checks the form of a key. The public key of `log.key` is compared with the one in the log.
fn key_note(dir: &Path, file: &str, logged: Option<&str>) -> Result<Option<FileNote>, CtlError> {
    let path = dir.join(file);
    let text = fs::read(&path).map_err(|cause| CtlError::Read { file: path.display().to_string(), cause })?;
    let Some(secret) = decode_secret_key(&text) else {
        let message = format!(
            "{}: the file is not 32 bytes in Base64; put your copy of it back (a backup has no private keys)",
            path.display()
        );
        return Err(refused(message));
    };
    if file != LOG_KEY_FILE {
        return Ok(Some(FileNote::new(file, "only the form of this key was verified")));
    }
    let Some(named) = logged.and_then(|named| named.parse::<LogKey>().ok()) else { return Ok(None) };
    if *LogSigner::new(&named.name, &secret).key() == named {
        return Ok(None);
    }
    let note = "the last key that the log names is another one: the file was changed, or the key is a systemd credential";
    Ok(Some(FileNote::new(file, note)))
}

/// The files below `dir`, by their paths in it, in the order of the names.
fn list_files(dir: &Path) -> Result<Vec<String>, CtlError> {
    let (mut found, mut dirs) = (Vec::new(), vec![dir.to_owned()]);
    while let Some(next) = dirs.pop() {
        let read = |cause| CtlError::Read { file: next.display().to_string(), cause };
        for entry in fs::read_dir(&next).map_err(read)? {
            let entry = entry.map_err(read)?;
            let name = entry.path();
            let name = name.strip_prefix(dir).unwrap_or(&name).display().to_string();
            // the daemon replaces the files of the database at any time
            let is_derived = DERIVED.contains(&format!("{name}/").as_str());
            if entry.file_type().map_err(read)?.is_dir() && !is_derived {
                dirs.push(entry.path());
            } else {
                found.push(if is_derived { format!("{name}/") } else { name });
            }
        }
    }
    found.sort();
    Ok(found)
}

const MIRROR_FILE: &str = "oracle_log.jsonl";
/// The start of the names of the mirror and of the files that it was renamed to.
const NAME_START: &str = "oracle_log";
/// A part of the names of files with lines of another log, which the daemon has moved aside.
const FOREIGN: &str = ".foreign-";

/// A difference that can have another cause than a change of the file.
#[derive(Debug, Serialize)]
struct FileNote {
    /// The path in the directory.
    pub(super) file: String,
    pub(super) note: String,
}

impl FileNote {
    pub(super) fn new(file: impl Into<String>, note: impl Into<String>) -> Self {
        Self { file: file.into(), note: note.into() }
    }
}

/// The lines of `oracle_log.jsonl`, or of a file that it was renamed to. The file can begin after the first entry, and end
/// before the last one.
#[derive(Debug)]
struct MirrorLines {
    file: PathBuf,
    name: String,
    input: Take<BufReader<File>>,
    /// The next line, with its line end.
    next: Vec<u8>,
    /// Whether the file ends within a line.
    is_torn: bool,
    /// The number of the first entry in the file.
    first: u64,
    /// The number of lines that were compared.
    lines: u64,
}

impl MirrorLines {
    /// Whether a file of the state directory has this name because it is the mirror, or was renamed from it.
    fn is_mirror(name: &str) -> bool {
        name.starts_with(NAME_START)
    }

    /// Opens the mirror in `dir`, and the files that it was renamed to.
    fn open_all(dir: &Path) -> Result<Vec<Self>, CtlError> {
        let read = |cause| CtlError::Read { file: dir.display().to_string(), cause };
        let mut mirrors = Vec::new();
        for entry in fs::read_dir(dir).map_err(read)? {
            let entry = entry.map_err(read)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if Self::is_mirror(&name) && entry.path().is_file() {
                mirrors.extend(Self::open(&entry.path(), name)?);
            }
        }
        mirrors.sort_by(|one, other| (one.first, &one.name).cmp(&(other.first, &other.name)));
        Ok(mirrors)
    }

    /// Opens the file, and reads its first line; `None` if the file does not exist.
    fn open(file: &Path, name: String) -> Result<Option<Self>, CtlError> {
        let read = |cause: io::Error| CtlError::Read { file: file.display().to_string(), cause };
        let opened = match File::open(file) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(read)?,
        };
        let len = opened.metadata().map_err(read)?.len();
        let input = BufReader::new(opened).take(len);
        let (file, next) = (file.to_owned(), Vec::new());
        let mut lines = Self { file, name, input, next, is_torn: false, first: 1, lines: 0 };
        if lines.is_comparable() {
            lines.read_next()?;
        }
        let number =
            lines.next.strip_prefix(b"{\"seq\":").and_then(|rest| rest.split(|byte| *byte == b',').next());
        let number = number.and_then(|number| str::from_utf8(number).ok()?.parse().ok());
        // if the first line has no number, the comparison with entry 1 reports it
        lines.first = number.unwrap_or(1);
        Ok(Some(lines))
    }

    /// Whether the file has lines of this log: not if it was moved aside, or compressed after its renaming.
    fn is_comparable(&self) -> bool {
        !self.name.contains(FOREIGN)
            && ![".gz", ".zst", ".xz", ".bz2", ".lz4"].iter().any(|end| self.name.ends_with(end))
    }

    /// Reads the next line. A line without its end, which the daemon has not completed, counts as none.
    fn read_next(&mut self) -> Result<(), CtlError> {
        self.next.clear();
        let read = self.input.read_until(b'\n', &mut self.next);
        read.map_err(|cause| CtlError::Read { file: self.file.display().to_string(), cause })?;
        if !self.next.ends_with(b"\n") {
            self.is_torn = !self.next.is_empty();
            self.next.clear();
        }
        Ok(())
    }

    /// Compares the line of this entry, if the file has it.
    pub(super) fn compare(&mut self, entry: &SegmentEntry<'_>) -> Result<(), CtlError> {
        if entry.seq < self.first || self.next.is_empty() {
            return Ok(());
        }
        let line = self.next.strip_suffix(b"\n").unwrap_or_default();
        let is_same = match &entry.content {
            // an erasure in progress rewrites the segments first
            EntryContent::Line { line: logged, .. } => is_mirror_line(logged, line),
            EntryContent::Dropped(hash) => {
                let leaf = str::from_utf8(line).ok().and_then(|line| leaf_of(line).ok());
                leaf.is_some_and(|leaf| leaf_hash(leaf.as_bytes()) == *hash)
            }
        };
        if !is_same {
            let (file, line, segment, seq) = (self.file.display(), self.lines + 1, entry.segment, entry.seq);
            let remedy = if self.is_current() {
                "the daemon writes the file again at its next start"
            } else {
                "restore the file"
            };
            return Err(refused(format!(
                "{file}, line {line}: the line is not that of entry {seq} (segment {segment}); {remedy}"
            )));
        }
        self.lines += 1;
        self.read_next()
    }

    /// Whether the daemon writes to this file.
    fn is_current(&self) -> bool {
        self.name == MIRROR_FILE
    }

    /// Checks that no line follows those of the log's `size` entries. Returns the number of lines of `oracle_log.jsonl`; `None`
    /// without the file.
    pub(super) fn finish(mirrors: &[Self], size: u64) -> Result<Option<u64>, CtlError> {
        if let Some(longer) = mirrors.iter().find(|mirror| !mirror.next.is_empty()) {
            let (file, line) = (longer.file.display(), longer.lines + 1);
            return Err(refused(format!(
                "{file}, line {line}: the log in the segments has only {size} entries"
            )));
        }
        Ok(mirrors.iter().find(|mirror| mirror.is_current()).map(|mirror| mirror.lines))
    }

    /// The entries from `first` on that no file has, and the files that were not compared.
    pub(super) fn notes(mirrors: Vec<Self>, first: u64, size: u64) -> Vec<FileNote> {
        let mut notes = Vec::new();
        let (mut next, mut has_current) = (first, false);
        for mirror in mirrors {
            has_current |= mirror.is_current();
            if !mirror.is_comparable() {
                notes.push(FileNote::new(mirror.name, "this copy of the log was not compared"));
                continue;
            }
            if mirror.is_torn {
                notes.push(FileNote::new(mirror.name.clone(), "the file ends within a line"));
            }
            if mirror.lines == 0 {
                // a file that was just renamed leaves an empty one
                continue;
            }
            if mirror.first > next {
                let missing = format!(
                    "no file before this one has the lines of the entries {next} to {}",
                    mirror.first - 1
                );
                notes.push(FileNote::new(mirror.name, missing));
            }
            next = next.max(mirror.first + mirror.lines);
        }
        let fault = if !has_current {
            "the file is missing; the daemon creates it at its next start".to_owned()
        } else if next <= size {
            format!(
                "the lines of the entries {next} to {size} are missing; the daemon adds them at its next start"
            )
        } else {
            return notes;
        };
        notes.push(FileNote::new(MIRROR_FILE, fault));
        notes
    }
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
