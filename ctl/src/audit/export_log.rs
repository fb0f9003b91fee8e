//! `oraclectl log export`, and its verification: the log as a directory of tiles (C2SP `tlog-tiles`).

use crate::audit::verification::{LogKeys, LogReplay, ReplayReport, refused};
use crate::base::error::CtlError;
use crate::base::input::progress_bar;
use crate::base::options::problem_error;
use crate::base::output::{format_pairs, print_json};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use domain_audit::checkpoint::{Checkpoint, LogKey};
use domain_audit::event::RetentionStarted;
use domain_audit::log_tiles::{LastTiles, TILE_HASHES, TileContent, TileFile};
use domain_audit::log_tree::{LogTree, TreeHash, leaf_hash};
use domain_base::event::LoggedEvent;
use domain_base::wording::format_count;
use hyper::{Method, StatusCode};
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat, renameat};
use nix::sys::stat::{Mode, mkdirat};
use oracled_api::client::{ClientError, DaemonClient, DaemonResponse};
use oracled_domain::status::StatusReport;
use oracled_store::SegmentLog;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// The checkpoint in an export.
const CHECKPOINT_FILE: &str = "checkpoint";
/// The folder of the tiles in an export.
const TILES_DIR: &str = "tile";
/// The bytes of a hash.
const HASH_BYTES: usize = size_of::<TreeHash>();

#[derive(Debug, clap::Args)]
pub(super) struct ExportArgs {
    /// Directory to write to; in the directory of an earlier export, it adds the new tiles
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

/// The result of an export.
#[derive(Serialize)]
struct ExportReport {
    /// The number of entries.
    size: u64,
    /// The number of files that were written.
    files: u64,
    /// The number of files with leaves that were not written, since one of their entries was dropped.
    dropped: u64,
}

/// A verified export.
#[derive(Serialize)]
struct VerifiedExport {
    origin: String,
    size: u64,
    /// The number of entries at the start that were dropped: only their hashes are in the export.
    dropped: u64,
    root: String,
    /// The size of the earlier log that this one continues.
    continues: Option<u64>,
    /// The number of files.
    files: u64,
    /// The replayed decisions, with `--replay`.
    #[serde(skip_serializing_if = "Option::is_none")]
    replay: Option<ReplayReport>,
}

impl ExportArgs {
    pub(super) async fn run(
        &self,
        daemon: &mut DaemonClient,
        is_json: bool,
        out: &mut dyn Write,
    ) -> Result<(), CtlError> {
        let note = read_checkpoint(daemon, false).await?;
        let key = read_key(daemon).await?;
        let size = key.verify(&note).map_err(unreadable)?.size;
        let bar = progress_bar(Some(size.div_ceil(TILE_HASHES as u64)), "exported");
        let (mut files, mut dropped) = (0, 0);
        for file in TileFile::all(size) {
            let name = Path::new(TILES_DIR).join(file.to_string());
            if file.content == TileContent::Leaves {
                bar.set_position(file.index);
            }
            // a full tile never changes
            if self.dir.join(&name).exists() && file.width == TILE_HASHES {
                continue;
            }
            let answer = daemon.call(Method::GET, &format!("/v1/log/tile/{file}"), None).await?;
            if answer.status == StatusCode::GONE {
                dropped += 1;
                continue;
            }
            if !answer.status.is_success() {
                return Err(problem_error(&answer));
            }
            write_file(&self.dir, &name, &answer.body)?;
            files += 1;
        }
        bar.finish_and_clear();
        // last: an interrupted export has the earlier checkpoint, for which it has all tiles
        write_file(&self.dir, Path::new(CHECKPOINT_FILE), note.as_bytes())?;
        let report = ExportReport { size, files, dropped };
        if is_json {
            return print_json(out, &report);
        }
        let entries = format_count(size, "entry", "entries");
        let files = format_count(files, "new file", "new files");
        writeln!(out, "exported {entries} to {} ({files} and the checkpoint)", self.dir.display())?;
        if dropped > 0 {
            let files = format_count(dropped, "file", "files");
            writeln!(out, "the log no longer has the leaves of {files}: their entries were dropped")?;
        }
        Ok(())
    }
}

/// Writes the file `name` in the export `dir` as a whole or not at all. No folder below `dir` may be a symbolic link, which could
/// lead to any file.
fn write_file(dir: &Path, name: &Path, content: &[u8]) -> Result<(), CtlError> {
    let write = || {
        fs::create_dir_all(dir)?;
        let mut folder: OwnedFd = File::open(dir)?.into();
        for part in name.parent().into_iter().flat_map(Path::iter) {
            match mkdirat(&folder, part, Mode::from_bits_truncate(0o777)) {
                Ok(()) | Err(Errno::EEXIST) => {}
                Err(error) => return Err(error.into()),
            }
            let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
            folder = openat(&folder, part, flags, Mode::empty())?;
        }
        let name = name.file_name().unwrap_or_default();
        let mut new = name.to_owned();
        new.push(".new");
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_TRUNC | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let mut file = File::from(openat(&folder, new.as_os_str(), flags, Mode::from_bits_truncate(0o666))?);
        file.write_all(content)?;
        file.sync_all()?;
        Ok(renameat(&folder, new.as_os_str(), &folder, name)?)
    };
    write().map_err(|error: io::Error| CtlError::Verb {
        message: format!("cannot write {}: {error}", dir.join(name).display()),
        exit_code: 5,
        was_printed: false,
    })
}

/// Whether a directory is an export, and neither a state directory nor a backup.
pub(super) fn is_export(dir: &Path) -> bool {
    dir.join(TILES_DIR).is_dir() && !SegmentLog::exists_in(dir)
}

/// Verifies the export in `dir`, and prints the result.
pub(super) fn verify(
    dir: &Path,
    keys: &LogKeys,
    since: Option<&Path>,
    mut replay: Option<LogReplay>,
    is_json: bool,
    out: &mut dyn Write,
) -> Result<(), CtlError> {
    let Checkpoint { origin, size, root } = keys.read_checkpoint(&dir.join(CHECKPOINT_FILE))?;
    let earlier = since.map(|file| keys.read_checkpoint(file)).transpose()?;
    if let Some(earlier) = earlier.as_ref().filter(|earlier| earlier.size > size) {
        let message = format!("the log has {size} entries, and the earlier checkpoint has {}", earlier.size);
        return Err(refused(message));
    }
    let bar = progress_bar(Some(size.div_ceil(TILE_HASHES as u64)), "verified");
    let mut built = BuiltTiles::default();
    let mut drops = LoggedDrops::default();
    for file in TileFile::all(size).take_while(|file| file.content == TileContent::Leaves) {
        bar.set_position(file.index);
        if drops.are_all_before(file) && !dir.join(TILES_DIR).join(file.to_string()).exists() {
            built.append_dropped(dir, file, earlier.as_ref())?;
            drops.dropped = built.tree.size();
            replay.iter_mut().for_each(LogReplay::note_dropped);
            continue;
        }
        let (content, is_longer) = read_file(dir, file)?;
        for leaf in leaves(&content, file, is_longer)? {
            built.append(leaf, file, earlier.as_ref())?;
            let line = str::from_utf8(leaf).map_err(|error| refused(format!("tile/{file}: {error}")))?;
            drops.note(line);
            if let Some(replay) = &mut replay {
                replay.add(line, |_| Ok(None))?;
            }
        }
    }
    bar.finish_and_clear();
    if built.tree.root() != root {
        let message = format!(
            "tile/entries: one of the {size} entries was changed: their root is not that of the checkpoint"
        );
        return Err(refused(message));
    }
    let files = built.compare(dir, size)? - drops.dropped.div_ceil(TILE_HASHES as u64);
    drops.check()?;
    let verified = VerifiedExport {
        origin,
        size,
        dropped: drops.dropped,
        root: BASE64_STANDARD.encode(root),
        continues: earlier.map(|earlier| earlier.size),
        files,
        replay: replay.map(LogReplay::finish),
    };
    if is_json {
        print_json(out, &verified)?;
    } else {
        print_verified(&verified, out)?;
    }
    verified.replay.as_ref().map_or(Ok(()), ReplayReport::check)
}

fn print_verified(verified: &VerifiedExport, out: &mut dyn Write) -> Result<(), CtlError> {
    let VerifiedExport { origin, size, dropped, root, continues, files, replay } = verified;
    let count = |entries: u64| format_count(entries, "entry", "entries");
    let mut rows = vec![("log", origin.clone()), ("checkpoint", format!("{}, root {root}", count(*size)))];
    if let Some(earlier) = continues {
        rows.push(("continues", format!("the log of {}", count(*earlier))));
    }
    if *dropped > 0 {
        rows.push(("dropped", format!("the leaves of {}; their hashes are in the tree", count(*dropped))));
    }
    rows.push(("verified", format_count(*files, "file", "files")));
    writeln!(out, "{}", format_pairs(&rows))?;
    replay.as_ref().map_or(Ok(()), |replay| replay.print(out))
}

/// The entries that were dropped from the log.
#[derive(Default)]
struct LoggedDrops {
    /// The number of entries whose leaves are not in the export.
    dropped: u64,
    /// The last dropped entry that an entry of the log names.
    named: u64,
}

impl LoggedDrops {
    /// Whether no file before this one has leaves.
    const fn are_all_before(&self, file: TileFile) -> bool {
        self.dropped == file.entries().start
    }

    fn note(&mut self, line: &str) {
        if let Ok(Some(started)) = LoggedEvent::<RetentionStarted>::read(line) {
            self.named = self.named.max(started.event.0.due.dropped_up_to().unwrap_or_default());
        }
    }

    /// Checks that the log names the removal. A file with one dropped entry has no leaves.
    fn check(&self) -> Result<(), CtlError> {
        if self.dropped <= self.named.next_multiple_of(TILE_HASHES as u64) {
            return Ok(());
        }
        Err(refused(format!(
            "tile/entries: the entries 1 to {} are missing, and no entry of the log names their removal",
            self.dropped
        )))
    }
}

/// The content of a file of the export, and whether it may be longer, since a later export has replaced it by a full tile.
fn read_file(dir: &Path, file: TileFile) -> Result<(Vec<u8>, bool), CtlError> {
    let dir = dir.join(TILES_DIR);
    let full = TileFile { width: TILE_HASHES, ..file };
    match fs::read(dir.join(file.to_string())) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            fs::read(dir.join(full.to_string())).map(|content| (content, true))
        }
        read => read.map(|content| (content, false)),
    }
    .map_err(|error| refused(format!("tile/{file}: {error}")))
}

/// The leaves in a file.
fn leaves(mut content: &[u8], file: TileFile, is_longer: bool) -> Result<Vec<&[u8]>, CtlError> {
    let mut leaves = Vec::new();
    while leaves.len() < file.width {
        let leaf = content
            .split_first_chunk()
            .and_then(|(length, rest)| rest.split_at_checked(usize::from(u16::from_be_bytes(*length))));
        let (leaf, rest) = leaf.ok_or_else(|| refused(format!("tile/{file}: the file is not whole")))?;
        leaves.push(leaf);
        content = rest;
    }
    if !content.is_empty() && !is_longer {
        return Err(refused(format!("tile/{file}: the file has further bytes after its entries")));
    }
    Ok(leaves)
}

/// The tiles over the leaves that were read.
#[derive(Default)]
struct BuiltTiles {
    tree: LogTree,
    last: LastTiles,
    full: BTreeMap<(u8, u64), Vec<TreeHash>>,
}

impl BuiltTiles {
    fn append(&mut self, leaf: &[u8], file: TileFile, earlier: Option<&Checkpoint>) -> Result<(), CtlError> {
        let index = self.tree.size();
        let start = format!("{{\"seq\":{},", index + 1);
        if !leaf.starts_with(start.as_bytes()) {
            return Err(refused(format!("tile/{file}: entry {} is missing", index + 1)));
        }
        self.append_hash(leaf_hash(leaf), file, earlier)
    }

    /// Appends the hashes of entries that were dropped, from the tile that has them.
    fn append_dropped(
        &mut self,
        dir: &Path,
        file: TileFile,
        earlier: Option<&Checkpoint>,
    ) -> Result<(), CtlError> {
        let tile = TileFile { content: TileContent::Hashes(0), ..file };
        let (content, _) = read_file(dir, tile)?;
        let (hashes, _) = content.as_chunks();
        if hashes.len() < file.width {
            return Err(refused(format!("tile/{tile}: the file is not whole")));
        }
        hashes.iter().take(file.width).try_for_each(|hash| self.append_hash(*hash, file, earlier))
    }

    fn append_hash(
        &mut self,
        hash: TreeHash,
        file: TileFile,
        earlier: Option<&Checkpoint>,
    ) -> Result<(), CtlError> {
        let index = self.tree.size();
        self.tree.append_hash(hash);
        let Self { tree, last, full } = self;
        last.append(index, hash, &mut |place, hashes| {
            full.insert((place.level, place.index), hashes.to_vec());
        });
        match earlier.filter(|earlier| earlier.size == tree.size() && earlier.root != tree.root()) {
            Some(earlier) => {
                let size = earlier.size;
                Err(refused(format!(
                    "tile/{file}: the first {size} entries are not those of the earlier checkpoint"
                )))
            }
            None => Ok(()),
        }
    }

    /// Compares the tiles in `dir` with those over the leaves. Returns the number of files.
    fn compare(&self, dir: &Path, size: u64) -> Result<u64, CtlError> {
        let mut files = 0;
        for file in TileFile::all(size) {
            files += 1;
            let TileContent::Hashes(level) = file.content else { continue };
            let full = self.full.get(&(level, file.index)).map(Vec::as_slice);
            let expected = full.unwrap_or_else(|| self.last.of_level(level));
            let (content, is_longer) = read_file(dir, file)?;
            let bytes = file.width * HASH_BYTES;
            let found = content.get(..bytes).filter(|_| is_longer || content.len() == bytes);
            if found != expected.get(..file.width).map(<[TreeHash]>::as_flattened) {
                return Err(refused(format!("tile/{file}: the tile is not that of the entries")));
            }
        }
        Ok(files)
    }
}

pub(super) async fn get(daemon: &mut DaemonClient, path: &str) -> Result<DaemonResponse, CtlError> {
    let answer = daemon.call(Method::GET, path, None).await?;
    if answer.status.is_success() { Ok(answer) } else { Err(problem_error(&answer)) }
}

/// The newest checkpoint; with `is_cosigned` the newest one that a witness has cosigned, if there is one.
pub(crate) async fn read_checkpoint(
    daemon: &mut DaemonClient,
    is_cosigned: bool,
) -> Result<String, CtlError> {
    let path = if is_cosigned { "/v1/log/checkpoint?cosigned=1" } else { "/v1/log/checkpoint" };
    let answer = get(daemon, path).await?;
    String::from_utf8(answer.body.to_vec()).map_err(unreadable)
}

pub(super) async fn read_key(daemon: &mut DaemonClient) -> Result<LogKey, CtlError> {
    let answer = get(daemon, "/v1/status").await?;
    answer.json::<StatusReport>()?.log_key.parse().map_err(unreadable)
}

pub(super) fn unreadable(error: impl ToString) -> CtlError {
    ClientError::Unreadable(error.to_string()).into()
}
