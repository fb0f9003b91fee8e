//! `oraclectl backup`.

use super::backup_files::{NewDir, check_file, sync_dirs, unusable, write_file};
use super::log_keys::refused;
use crate::base::error::CtlError;
use crate::base::input::read_all;
use crate::base::input_lines::progress_bar;
use crate::base::options::{GlobalOptions, problem_error};
use crate::base::output::{format_count, print_json};
use http_body_util::BodyExt;
use hyper::Method;
use hyper::body::{Buf, Bytes, Incoming};
use indicatif::ProgressBar;
use oracled_api::audit::backup::{BackedUpFile, BackupManifest, MANIFEST_FILE};
use oracled_api::base::client::{DaemonClient, DaemonResponse};
use serde_json::json;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use tar::Archive;
use tokio::runtime::Runtime;

/// Back up the state of the running daemon to a folder
///
/// The backup has the log, all stored data, and the files of sources, but no private key: keep `log.key` and `held.key` elsewhere. The
/// daemon first reads every file. If one is damaged or missing, the command fails, and names the file and the remedy. After a failure
/// the folder is empty. `oraclectl restore` restores a backup, and `oraclectl verify-log` verifies it. A backup without manifest.json
/// was interrupted, and cannot be restored.
#[derive(Debug, clap::Args)]
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
    std::fs::File::open(dir).and_then(|handle| handle.sync_all()).map_err(|error| unusable(dir, &error))?;
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
