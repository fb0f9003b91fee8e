//! The files of a state directory or a backup besides its segments: the verified ones, and notes about others.

use super::log_keys::refused;
use super::log_mirror::{FileNote, MirrorLines};
use crate::base::error::CtlError;
use crate::base::input::decode_secret_key;
use crate::base::output::format_count;
use domain_audit::checkpoint::{LogKey, LogSigner};
use oracled_api::audit::backup::{CHECKPOINT_FILE, MANIFEST_FILE};
use oracled_store::{LoggedState, VerifiedStateFiles};
use serde::Serialize;
use std::fs;
use std::path::Path;

/// Folders and files that the daemon recreates from others. Names of folders end with `/`.
const DERIVED: [&str; 7] = [
    "checks.json",
    "ground/work/",
    "segments/spare",
    "space_reserve",
    "store.new/",
    "store.previous/",
    "store/",
];

/// The key that signs checkpoints, unless it is a systemd credential.
const LOG_KEY_FILE: &str = "log.key";

/// The files besides the segments.
#[derive(Debug, Serialize)]
pub(super) struct VerifiedFiles {
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
        state: &LoggedState,
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
        if state.log_key.is_some() && !dir.join(LOG_KEY_FILE).exists() {
            let note = "the file is missing: it was removed, or the key is a systemd credential";
            notes.push(FileNote::new(LOG_KEY_FILE, note));
        }
        notes.extend(MirrorLines::notes(mirrors, state.first_seq, state.tree.size()));
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
fn note_of(dir: &Path, name: &str, state: &LoggedState) -> Result<Option<FileNote>, CtlError> {
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
        let message =
            format!("{}: the file is not 32 bytes in Base64; restore it from a backup", path.display());
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
