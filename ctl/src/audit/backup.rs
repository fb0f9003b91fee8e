//! `oraclectl backup`.

use crate::audit::verification::{LogKeys, refused};
use crate::base::error::CtlError;
use crate::base::input::{progress_bar, read_all};
use crate::base::options::{GlobalOptions, problem_error};
use crate::base::output::{print_json, print_note};
use crate::base::program::examples;
use domain_audit::wire::{BackedUpFile, BackupManifest, CHECKPOINT_FILE, MANIFEST_FILE};
use domain_base::digest::{Sha256Hex, Sha256Stream};
use domain_base::wording::format_count;
use http_body_util::BodyExt;
use hyper::Method;
use hyper::body::{Buf, Bytes, Incoming};
use indicatif::ProgressBar;
use nix::libc;
use oracled_api::client::{DaemonClient, DaemonResponse};
use oracled_domain::status::StatusReport;
use oracled_store::is_backed_up;
use serde_json::json;
use std::collections::BTreeSet;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};
use std::{fs, io};
use tar::Archive;
use tokio::runtime::Runtime;

/// Back up the state of the running daemon to a folder
///
/// The backup has the log, all stored data, and the files of sources, but no private key: keep `log.key` and `held.key` elsewhere. The
/// daemon first reads every file. If one is damaged or missing, the command fails, and names the file and the remedy. After a failure
/// the folder is empty. `oraclectl restore` restores a backup, and `oraclectl verify-log` verifies it. A backup without manifest.json
/// was interrupted, and cannot be restored.
#[derive(Debug, clap::Args)]
#[command(after_help = examples(&["oraclectl backup /backup/oracled-2026-11-22"]))]
pub(crate) struct BackupArgs {
    /// The folder, which must be new or empty
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

impl BackupArgs {
    pub(crate) fn run(&self, options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let dir = NewDir::create(&self.dir)?;
        let bar = progress_bar(None, "received");
        let (_client, body) = runtime.block_on(request(options))?;
        let content = BackupReader { runtime: &runtime, body, piece: Bytes::new(), bar: &bar };
        let manifest = receive(&self.dir, content)?;
        let status = runtime.block_on(options.call_control(Method::GET, "/v1/status", None))?;
        let lost_rows = status.json::<StatusReport>()?.lost_rows.len();
        dir.complete();
        bar.finish_and_clear();
        if lost_rows > 0 {
            let rows = format_count(lost_rows as u64, "row is", "rows are");
            print_note(&format!(
                "oraclectl: {rows} lost, and not in this backup; keep the earlier backups, which can have them. `oraclectl status` names them"
            ));
        }
        let BackupManifest { version, created_at, entries, files, .. } = &manifest;
        if options.json {
            return print_json(
                out,
                &json!({
                    "version": version,
                    "created_at": created_at,
                    "entries": entries,
                    "files": files.len(),
                    "bytes": manifest.bytes(),
                    "lost_rows": lost_rows,
                }),
            );
        }
        let files = format_count(files.len() as u64, "file", "files");
        let (dir, bytes) = (self.dir.display(), manifest.bytes());
        let entries = format_count(entries, "log entry", "log entries");
        Ok(writeln!(out, "backed up {entries}: {files} with {bytes} bytes in {dir}")?)
    }
}

/// Requests a backup. The connection breaks when the client is dropped.
async fn request(options: &GlobalOptions) -> Result<(DaemonClient, Incoming), CtlError> {
    let mut client = DaemonClient::connect(&options.control_path()?).await?;
    let response = client.open(Method::POST, "/v1/backup", None).await?;
    if response.status().is_success() {
        return Ok((client, response.into_body()));
    }
    Err(problem_error(&DaemonResponse::read_whole(response).await?))
}

/// Writes the files of the archive to `dir`, and last of all its manifest, once the archive is complete.
fn receive(dir: &Path, content: impl Read) -> Result<BackupManifest, CtlError> {
    let broken = |error: &io::Error| {
        let message =
            format!("the backup was interrupted: {error}; try again. The service log has the cause");
        CtlError::Verb { message, exit_code: 3, was_printed: false }
    };
    let mut archive = Archive::new(content);
    let (mut written, mut text): (Vec<BackedUpFile>, _) = (Vec::new(), String::new());
    // no name is too long for a header; otherwise, the whole name in another entry would be read into memory
    for entry in archive.entries().map_err(|error| broken(&error))?.raw(true) {
        let mut entry = entry.map_err(|error| broken(&error))?;
        let name = entry.path().map_err(|error| broken(&error))?.to_string_lossy().into_owned();
        if name == MANIFEST_FILE {
            text = read_all(&mut entry).map_err(|error| broken(&error))?;
        } else {
            written.push(write_file(dir, &name, &mut entry)?);
        }
    }
    // the daemon ends the response only after it has logged the backup
    io::copy(&mut archive.into_inner(), &mut io::sink()).map_err(|error| broken(&error))?;
    let manifest = BackupManifest::verify_with_own_key(&text).map_err(|error| refused(error.to_string()))?;
    if manifest.files.len() != written.len() {
        return Err(refused("the archive has other files than its manifest; try again".to_owned()));
    }
    for (expected, found) in manifest.files.iter().zip(&written) {
        check_file(dir, expected, found)?;
    }
    sync_dirs(dir)?;
    write_file(dir, MANIFEST_FILE, &mut text.as_bytes())?;
    File::open(dir).and_then(|handle| handle.sync_all()).map_err(|error| unusable(dir, &error))?;
    Ok(manifest)
}

/// Reads the body of a response.
struct BackupReader<'r> {
    runtime: &'r Runtime,
    body: Incoming,
    piece: Bytes,
    bar: &'r ProgressBar,
}

impl Read for BackupReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !self.piece.has_remaining() {
            match self.runtime.block_on(self.body.frame()) {
                None => return Ok(0),
                Some(frame) => self.piece = frame.map_err(io::Error::other)?.into_data().unwrap_or_default(),
            }
        }
        let read = buffer.len().min(self.piece.remaining());
        self.piece.split_to(read).copy_to_slice(buffer.get_mut(..read).unwrap_or_default());
        self.bar.inc(read as u64);
        Ok(read)
    }
}

/// Size of the pieces in which a file is copied, in bytes.
const PIECE_BYTES: usize = 256 * 1024;

/// The error for a file or a folder that cannot be used.
pub(super) fn unusable(path: &Path, error: &io::Error) -> CtlError {
    let message = format!("cannot use {}: {error}", path.display());
    CtlError::Verb { message, exit_code: 5, was_printed: false }
}

/// A folder that is being filled. If it is not complete when this is dropped, its content is removed, so that it is never taken for a
/// backup or for a state directory.
pub(super) struct NewDir<'d> {
    dir: &'d Path,
    /// Whether the folder did not exist before.
    is_new: bool,
    is_complete: bool,
}

impl<'d> NewDir<'d> {
    /// Checks that `dir` does not exist or is empty, and creates it.
    pub(super) fn create(dir: &'d Path) -> Result<Self, CtlError> {
        let is_new = match fs::read_dir(dir).map(|mut entries| entries.next().is_none()) {
            Ok(true) => false,
            Ok(false) => {
                let message = format!("{} is not empty; name a new or empty folder", dir.display());
                return Err(CtlError::Verb { message, exit_code: 5, was_printed: false });
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                create_dirs(dir).map_err(|error| unusable(dir, &error))?;
                true
            }
            Err(error) => return Err(unusable(dir, &error)),
        };
        Ok(Self { dir, is_new, is_complete: false })
    }

    /// Keeps the content.
    pub(super) fn complete(mut self) {
        self.is_complete = true;
    }
}

impl Drop for NewDir<'_> {
    fn drop(&mut self) {
        if self.is_complete {
            return;
        }
        let removed = if self.is_new {
            fs::remove_dir_all(self.dir)
        } else {
            fs::read_dir(self.dir).and_then(|entries| {
                for entry in entries {
                    let path = entry?.path();
                    if path.is_dir() { fs::remove_dir_all(path)? } else { fs::remove_file(path)? }
                }
                Ok(())
            })
        };
        if let Err(error) = removed {
            let dir = self.dir.display();
            print_note(&format!("oraclectl: cannot remove the content of {dir}: {error}; remove it"));
        }
    }
}

/// Creates a folder and the folders above it, with mode 0700.
fn create_dirs(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

/// The path of the file `name` of a backup in `dir`. A name that leads out of the folder is rejected.
pub(super) fn path_in(dir: &Path, name: &str) -> Result<PathBuf, CtlError> {
    let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_));
    if name.is_empty() || !Path::new(name).components().all(is_plain) {
        return Err(refused(format!("`{name}` is not a path inside a backup; restore another backup")));
    }
    Ok(dir.join(name))
}

/// Reads `content` to its end, and passes each piece to `write`. Returns its length and its digest.
fn read_pieces(
    content: &mut impl Read,
    mut write: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<(u64, Sha256Hex)> {
    let (mut digest, mut bytes, mut piece) = (Sha256Stream::default(), 0, vec![0; PIECE_BYTES]);
    loop {
        let read = match content.read(&mut piece) {
            Ok(0) => return Ok((bytes, digest.finish())),
            Ok(read) => piece.get(..read).unwrap_or_default(),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        digest.push(read);
        bytes += read.len() as u64;
        write(read)?;
    }
}

/// Creates the file `name` in `dir` with mode 0600, and syncs it. Returns its length and its digest.
pub(super) fn write_file(dir: &Path, name: &str, content: &mut impl Read) -> Result<BackedUpFile, CtlError> {
    let path = path_in(dir, name)?;
    let written = (|| {
        if let Some(parent) = path.parent() {
            create_dirs(parent)?;
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        let (bytes, sha256) = read_pieces(content, |piece| file.write_all(piece))?;
        file.sync_all()?;
        Ok(BackedUpFile { name: name.to_owned(), bytes, sha256 })
    })();
    written.map_err(|error| unusable(&path, &error))
}

/// Syncs the names in `dir` and in all folders below it.
pub(super) fn sync_dirs(dir: &Path) -> Result<(), CtlError> {
    let sync = |dir: &Path| File::open(dir).and_then(|handle| handle.sync_all());
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        let entries = fs::read_dir(&dir).and_then(|entries| {
            sync(&dir)?;
            entries.collect::<io::Result<Vec<_>>>()
        });
        let entries = entries.map_err(|error| unusable(&dir, &error))?;
        dirs.extend(entries.into_iter().map(|entry| entry.path()).filter(|path| path.is_dir()));
    }
    Ok(())
}

/// Opens a regular file. A symbolic link, a pipe or a device is refused: a backup has none.
pub(super) fn open_regular(path: &Path) -> io::Result<File> {
    // a pipe without a writer must not block the open
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is not a regular file")) }
}

/// Reads the manifest of the backup in `dir`, which one of the keys must have signed.
fn read_manifest(dir: &Path, keys: &LogKeys) -> Result<BackupManifest, CtlError> {
    let file = dir.join(MANIFEST_FILE);
    let text = match open_regular(&file).and_then(read_all) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let dir = dir.display();
            return Err(refused(format!(
                "{dir} has no {MANIFEST_FILE}: the backup was interrupted, or the folder is not a backup; name another one"
            )));
        }
        Err(error) if error.kind() == ErrorKind::InvalidData => String::new(),
        read => read.map_err(|error| unusable(&file, &error))?,
    };
    keys.verify_manifest(&text).map_err(|error| refused(format!("{}: {error}", file.display())))
}

/// Checks that one of the keys signed the manifest of the backup in `dir`, and that the backup has the files of the manifest, and no
/// others. Returns the manifest.
pub(super) fn verify_manifest(dir: &Path, keys: &LogKeys) -> Result<BackupManifest, CtlError> {
    let manifest = read_manifest(dir, keys)?;
    check_names(dir, &manifest)?;
    check_files(dir, &manifest)?;
    Ok(manifest)
}

/// Checks the length and the digest of each file.
fn check_files(dir: &Path, manifest: &BackupManifest) -> Result<(), CtlError> {
    let bar = progress_bar(Some(manifest.bytes()), "checked");
    for file in &manifest.files {
        let path = path_in(dir, &file.name)?;
        let opened = open_regular(&path).map_err(|error| match error.kind() {
            ErrorKind::NotFound => {
                refused(format!("{}: the file is missing; restore another backup", path.display()))
            }
            _ => unusable(&path, &error),
        });
        let read = read_pieces(&mut bar.wrap_read(opened?), |_| Ok(()));
        let (bytes, sha256) = read.map_err(|error| unusable(&path, &error))?;
        check_file(dir, file, &BackedUpFile { name: file.name.clone(), bytes, sha256 })?;
    }
    bar.finish_and_clear();
    Ok(())
}

/// Checks the length and the digest of a file of the backup against its manifest.
pub(super) fn check_file(dir: &Path, expected: &BackedUpFile, found: &BackedUpFile) -> Result<(), CtlError> {
    if expected == found {
        return Ok(());
    }
    let file = dir.join(&expected.name);
    Err(refused(format!(
        "{}: the file has {} bytes with the SHA-256 {}; in the manifest it has {} bytes with {}; restore another backup",
        file.display(),
        found.bytes,
        found.sha256,
        expected.bytes,
        expected.sha256
    )))
}

/// Checks that the manifest has only names of a backup, each once, and that the backup in `dir` has only regular files with these
/// names. So it has no database, no `checks.json` and no keys: a start makes the first two from the segments.
fn check_names(dir: &Path, manifest: &BackupManifest) -> Result<(), CtlError> {
    let mut named: BTreeSet<PathBuf> = BTreeSet::from([dir.join(MANIFEST_FILE)]);
    for BackedUpFile { name, .. } in &manifest.files {
        let is_known = name == CHECKPOINT_FILE || is_backed_up(name);
        if !named.insert(path_in(dir, name)?) || !is_known {
            return Err(refused(format!(
                "the manifest names `{name}`, which is not the name of a file of a backup, or is repeated; restore another backup"
            )));
        }
    }
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).map_err(|error| unusable(&dir, &error))? {
            let entry = entry.map_err(|error| unusable(&dir, &error))?;
            let path = entry.path();
            let kind = entry.file_type().map_err(|error| unusable(&path, &error))?;
            if kind.is_dir() {
                dirs.push(path);
            } else if !kind.is_file() {
                return Err(refused(format!(
                    "{}: a backup has only regular files; remove it, or restore another backup",
                    path.display()
                )));
            } else if !named.contains(&path) {
                return Err(refused(format!(
                    "{}: the manifest does not name this file; remove it, or restore another backup",
                    path.display()
                )));
            }
        }
    }
    Ok(())
}
