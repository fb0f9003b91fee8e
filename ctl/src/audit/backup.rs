//! `oraclectl backup` and `oraclectl restore`.

use crate::audit::verify_directory::{ComparedCheckpoint, VerifiedLog, verify_directory};
use crate::audit::verify_log::{LogKeys, refused};
use crate::base::error::CtlError;
use crate::base::input::{decode_secret_key, progress_bar, read_all};
use crate::base::options::{GlobalOptions, problem_error};
use crate::base::output::{print_json, print_note};
use crate::base::program::examples;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use domain_audit::checkpoint::{LogKey, LogSigner};
use domain_audit::wire::backup::{BackedUpFile, BackupManifest, CHECKPOINT_FILE, MANIFEST_FILE};
use domain_base::count::format_count;
use domain_base::digest::{Sha256Hex, Sha256Stream};
use domain_base::visible::visible_line;
use http_body_util::BodyExt;
use hyper::Method;
use hyper::body::{Buf, Bytes, Incoming};
use indicatif::ProgressBar;
use nix::libc;
use oracled_api::client::{DaemonClient, DaemonResponse};
use oracled_store::{RESTORING_FILE, is_backed_up};
use serde_json::json;
use std::collections::BTreeSet;
use std::fs;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};
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
        dir.complete();
        bar.finish_and_clear();
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
                }),
            );
        }
        let files = format_count(files.len() as u64, "file", "files");
        let (dir, bytes) = (self.dir.display(), manifest.bytes());
        Ok(writeln!(out, "backed up {entries} log entries: {files} with {bytes} bytes in {dir}")?)
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
struct NewDir<'d> {
    dir: &'d Path,
    /// Whether the folder did not exist before.
    is_new: bool,
    is_complete: bool,
}

impl<'d> NewDir<'d> {
    /// Checks that `dir` does not exist or is empty, and creates it.
    fn create(dir: &'d Path) -> Result<Self, CtlError> {
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
    fn complete(mut self) {
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
fn path_in(dir: &Path, name: &str) -> Result<PathBuf, CtlError> {
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
fn sync_dirs(dir: &Path) -> Result<(), CtlError> {
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
fn open_regular(path: &Path) -> io::Result<File> {
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
fn check_file(dir: &Path, expected: &BackedUpFile, found: &BackedUpFile) -> Result<(), CtlError> {
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

/// The file that is written last: the daemon does not start without it.
const LAST_FILE: &str = "watermark";

/// Restore a backup to a new state directory, without a daemon
///
/// It checks the signature of the manifest with the public key, the length and the SHA-256 of each file, and compares the log with the
/// checkpoint of the backup. A backup has no private keys: name their files, or let systemd provide them to this command as the
/// credentials oracled_log-key and oracled_held-key. Without the key of the log, the daemon creates a new one at its next start, and
/// logs `log_key_replaced`. Without the key of held verdicts, these verdicts are lost, and it lists their sessions. After a failure,
/// the state directory is empty.
#[derive(Debug, clap::Args)]
#[command(after_help = examples(&["oraclectl restore /backup/oracled-2026-11-22 --state-dir /var/lib/oracled --key log-key"]))]
pub(crate) struct RestoreArgs {
    /// The backup, a folder from `oraclectl backup`
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// The state directory, which must be new or empty
    #[arg(long, value_name = "STATE")]
    state_dir: PathBuf,
    /// A public key of the log, or a file with it, from a source that you trust; repeat it if the log got a new key
    #[arg(long = "key", value_name = "KEY", required = true)]
    keys: Vec<String>,
    /// The file with the private key of the log, which was `log.key` in the state directory
    #[arg(long, value_name = "FILE")]
    log_key: Option<PathBuf>,
    /// The file with the key of held verdicts, which was `held.key` in the state directory
    #[arg(long, value_name = "FILE")]
    held_key: Option<PathBuf>,
}

impl RestoreArgs {
    pub(crate) fn run(&self, is_json: bool, out: &mut dyn Write) -> Result<(), CtlError> {
        let Self { dir, state_dir, keys, log_key, held_key } = self;
        let keys = LogKeys::read(keys)?;
        let (log_key, held_key) = (
            PrivateKey::find(log_key.as_deref(), LOG_KEY)?,
            PrivateKey::find(held_key.as_deref(), HELD_KEY)?,
        );
        let manifest = verify_manifest(dir, &keys)?;
        let verified = verify(dir, &manifest, &keys)?;
        if let Some(log_key) = &log_key {
            log_key.check_public(verified.log_key.as_deref())?;
        }
        let restored = NewDir::create(state_dir)?;
        copy_files(dir, &manifest, [&log_key, &held_key].into_iter().flatten(), state_dir)?;
        restored.complete();
        let lost = if held_key.is_some() { BTreeSet::new() } else { verified.held.clone() };
        if is_json {
            let VerifiedLog { size, root, .. } = &verified;
            return print_json(
                out,
                &json!({
                    "created_at": manifest.created_at,
                    "entries": size,
                    "root": root,
                    "files": manifest.files.len(),
                    "bytes": manifest.bytes(),
                    "has_log_key": log_key.is_some(),
                    "lost_held_verdicts": lost,
                }),
            );
        }
        let (created_at, state) = (manifest.created_at, state_dir.display());
        let files = format_count(manifest.files.len() as u64, "file", "files");
        writeln!(
            out,
            "restored the backup of {created_at} to {state}: {} log entries, {files}",
            manifest.entries
        )?;
        if log_key.is_none() {
            writeln!(
                out,
                "no key of the log: unless it is a systemd credential of the daemon, the daemon creates a new one, and logs \
                 log_key_replaced; then give the output of `oraclectl log key` to everyone who verifies the log"
            )?;
        }
        for session_id in &lost {
            writeln!(
                out,
                "no key of held verdicts: the verdict of session {} is lost, unless the daemon gets the key; `oraclectl order retry` \
                 or `oraclectl order fail` ends the wait for it",
                visible_line(session_id)
            )?;
        }
        Ok(writeln!(
            out,
            "next: give the directory to the user of the daemon, for example `chown -R oracled:oracled {state}`, then start the daemon"
        )?)
    }
}

/// A private key that a backup does not have.
struct PrivateKey {
    secret: [u8; 32],
    /// The file that it comes from.
    from: PathBuf,
    /// The name of its file in the state directory; `None` if the daemon gets it as a credential too.
    name: Option<&'static str>,
}

/// The names of the keys: the file in the state directory, and systemd's credential.
const LOG_KEY: (&str, &str) = ("log.key", "oracled_log-key");
const HELD_KEY: (&str, &str) = ("held.key", "oracled_held-key");

impl PrivateKey {
    /// The key in `file`, or in the credential if there is no file; `None` without both.
    fn find(file: Option<&Path>, (name, credential): (&'static str, &str)) -> Result<Option<Self>, CtlError> {
        let credential =
            std::env::var_os("CREDENTIALS_DIRECTORY").map(|dir| Path::new(&dir).join(credential));
        let (from, name) = match (file, credential.filter(|file| file.exists())) {
            (Some(file), _) => (file.to_owned(), Some(name)),
            (None, Some(credential)) => (credential, None),
            (None, None) => return Ok(None),
        };
        let shown = from.display();
        let content = fs::read(&from).map_err(|cause| CtlError::Read { file: shown.to_string(), cause })?;
        let secret = decode_secret_key(&content).ok_or_else(|| {
            refused(format!("{shown}: the file is not 32 bytes in Base64; name the file of the private key"))
        })?;
        Ok(Some(Self { secret, from, name }))
    }

    /// Checks that it is the private key of the log whose last public key is `named`.
    fn check_public(&self, named: Option<&str>) -> Result<(), CtlError> {
        let Some(named) = named.and_then(|named| named.parse::<LogKey>().ok()) else { return Ok(()) };
        let public = LogSigner::new(&named.name, &self.secret);
        if *public.key() == named {
            return Ok(());
        }
        Err(refused(format!(
            "{}: the key is that of {}, and the log was last signed with that of {named}; name the right file, or leave out \
             --log-key to let the daemon create a new key",
            self.from.display(),
            public.key()
        )))
    }

    /// The content of its file.
    fn to_text(&self) -> String {
        BASE64_STANDARD.encode(self.secret) + "\n"
    }
}

/// Compares the log in the backup with its checkpoint.
fn verify(dir: &Path, manifest: &BackupManifest, keys: &LogKeys) -> Result<VerifiedLog, CtlError> {
    let file = dir.join(CHECKPOINT_FILE);
    let checkpoint = keys.read_checkpoint(&file)?;
    if checkpoint.size != manifest.entries {
        let (size, entries) = (checkpoint.size, manifest.entries);
        return Err(refused(format!(
            "{}: the checkpoint has {size} entries, and the manifest {entries}; restore another backup",
            file.display()
        )));
    }
    verify_directory(dir, &[ComparedCheckpoint::of_backup(file, checkpoint)], None)
}

/// Copies the files and the keys to the state directory durably, the high-water mark last. A daemon does not start on an incomplete copy, even
/// after a kill or a power cut: it has a further file.
fn copy_files<'k>(
    dir: &Path,
    manifest: &BackupManifest,
    keys: impl Iterator<Item = &'k PrivateKey>,
    state_dir: &Path,
) -> Result<(), CtlError> {
    write_file(state_dir, RESTORING_FILE, &mut io::empty())?;
    sync_dirs(state_dir)?;
    for key in keys {
        if let Some(name) = key.name {
            write_file(state_dir, name, &mut key.to_text().as_bytes())?;
        }
    }
    let bar = progress_bar(Some(manifest.bytes()), "copied");
    let (last, files): (Vec<_>, Vec<_>) = manifest.files.iter().partition(|file| file.name == LAST_FILE);
    for part in [files, last] {
        for file in part.into_iter().filter(|file| file.name != CHECKPOINT_FILE) {
            let path = path_in(dir, &file.name)?;
            let content = open_regular(&path).map_err(|error| unusable(&path, &error))?;
            let copied = write_file(state_dir, &file.name, &mut bar.wrap_read(content))?;
            check_file(dir, file, &copied)?;
        }
        sync_dirs(state_dir)?;
    }
    let restoring = state_dir.join(RESTORING_FILE);
    fs::remove_file(&restoring).map_err(|error| unusable(&restoring, &error))?;
    sync_dirs(state_dir)?;
    bar.finish_and_clear();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain_audit::wire::backup::BackedUpFile;
    use domain_base::digest::Sha256Hex;
    use jiff::Timestamp;

    fn backed_up(name: &str, content: &str) -> BackedUpFile {
        BackedUpFile {
            name: name.to_owned(),
            bytes: content.len() as u64,
            sha256: Sha256Hex::of(content.as_bytes()),
        }
    }

    #[test]
    fn daemon_does_not_open_an_incomplete_copy() {
        let (backup, state) =
            (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
        fs::write(backup.path().join("watermark"), "mark").expect("the write succeeds");
        fs::write(backup.path().join("segment"), "rows").expect("the write succeeds");
        let mut manifest = BackupManifest {
            format: 2,
            version: "1".to_owned(),
            created_at: Timestamp::UNIX_EPOCH,
            entries: 0,
            log_key: String::new(),
            files: vec![backed_up("segment", "rows"), backed_up("segments/1", "a file that is missing")],
        };
        let key = PrivateKey { secret: [7; 32], from: PathBuf::new(), name: Some("log.key") };
        let copy =
            |manifest: &BackupManifest| copy_files(backup.path(), manifest, [&key].into_iter(), state.path());
        assert!(copy(&manifest).is_err(), "a file is missing");
        assert!(state.path().join("segment").exists() && state.path().join(RESTORING_FILE).exists());
        for name in ["segment", "log.key", RESTORING_FILE] {
            fs::remove_file(state.path().join(name)).expect("the removal succeeds");
        }
        manifest.files.pop();
        copy(&manifest).expect("the backup is whole");
        assert!(state.path().join("segment").exists() && !state.path().join(RESTORING_FILE).exists());
        let written = fs::read(state.path().join("log.key")).expect("the key is written");
        assert_eq!(decode_secret_key(&written), Some([7; 32]));
    }

    #[test]
    fn private_key_of_another_log_key_is_refused() {
        let key = PrivateKey { secret: [7; 32], from: PathBuf::new(), name: Some("log.key") };
        let public = |secret| LogSigner::new("oracled/1", &[secret; 32]).key().to_string();
        assert!(key.check_public(Some(&public(7))).is_ok());
        assert!(matches!(key.check_public(Some(&public(8))), Err(CtlError::Verb { exit_code: 1, .. })));
    }
}
