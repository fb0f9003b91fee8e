//! `oraclectl restore`.

use super::backup_files::{
    check_file, create_empty_dir, path_in, sync_dirs, unusable, verify_manifest, write_file,
};
use super::log_keys::{LogKeys, refused};
use super::verify_directory::{ComparedCheckpoint, VerifiedLog, verify_directory};
use crate::base::error::CtlError;
use crate::base::input::read_text;
use crate::base::lines::progress_bar;
use crate::base::output::{format_count, print_json};
use oracled_api::audit::backup::{BackupManifest, CHECKPOINT_FILE};
use oracled_domain::audit::checkpoint::Checkpoint;
use oracled_store::RESTORING_FILE;
use serde_json::json;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The file that is written last: the daemon does not start without it.
const LAST_FILE: &str = "watermark";

/// Restore a backup to a new state directory, without a daemon
///
/// It checks the length and the SHA-256 of each file, and compares the log with the checkpoint of the backup. After a failure,
/// the state directory is empty.
#[derive(Debug, clap::Args)]
pub(crate) struct RestoreArgs {
    /// The backup, a folder from `oraclectl backup`
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// The state directory, which must be new or empty
    #[arg(long, value_name = "STATE")]
    state_dir: PathBuf,
    /// A public key of the log, or a file with it, to verify the signature of the checkpoint; repeat it if the log got a new key
    #[arg(long = "key", value_name = "KEY")]
    keys: Vec<String>,
}

impl RestoreArgs {
    pub(crate) fn run(&self, is_json: bool, out: &mut dyn Write) -> Result<(), CtlError> {
        let Self { dir, state_dir, keys } = self;
        let manifest = verify_manifest(dir)?;
        let verified = verify(dir, &manifest, keys)?;
        let is_new = create_empty_dir(state_dir)?;
        let mut restored = RestoredDir { dir: state_dir, is_new, is_complete: false };
        copy_files(dir, &manifest, state_dir)?;
        restored.is_complete = true;
        drop(restored);
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
        let unsigned = if keys.is_empty() {
            "the signature of the checkpoint was not verified; verify it by `oraclectl verify-log` with --key\n"
        } else {
            ""
        };
        Ok(writeln!(
            out,
            "{unsigned}next: give the directory to the user of the daemon, for example `chown -R oracled:oracled {state}`, \
             then start the daemon"
        )?)
    }
}

/// Compares the log in the backup with its checkpoint.
fn verify(dir: &Path, manifest: &BackupManifest, keys: &[String]) -> Result<VerifiedLog, CtlError> {
    let file = dir.join(CHECKPOINT_FILE);
    let checkpoint = if keys.is_empty() {
        Checkpoint::read_unverified(&read_text(&file)?)
            .map_err(|error| refused(format!("{}: {error}", file.display())))?
    } else {
        LogKeys::read(keys)?.read_checkpoint(&file)?
    };
    if checkpoint.size != manifest.entries {
        let (size, entries) = (checkpoint.size, manifest.entries);
        return Err(refused(format!(
            "{}: the checkpoint has {size} entries, and the manifest {entries}; restore another backup",
            file.display()
        )));
    }
    verify_directory(dir, &[ComparedCheckpoint::of_backup(file, checkpoint)], None)
}

/// Copies the files to the state directory durably, the high-water mark last. A daemon does not start on an incomplete copy, even
/// after a kill or a power cut: it has a further file.
fn copy_files(dir: &Path, manifest: &BackupManifest, state_dir: &Path) -> Result<(), CtlError> {
    write_file(state_dir, RESTORING_FILE, &mut io::empty())?;
    sync_dirs(state_dir)?;
    let bar = progress_bar(Some(manifest.bytes()), "copied");
    let (last, files): (Vec<_>, Vec<_>) = manifest.files.iter().partition(|file| file.name == LAST_FILE);
    for part in [files, last] {
        for file in part.into_iter().filter(|file| file.name != CHECKPOINT_FILE) {
            let path = path_in(dir, &file.name)?;
            let content = File::open(&path).map_err(|error| unusable(&path, &error))?;
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

/// A state directory that is being restored. If it is not complete when this is dropped, its content is removed.
struct RestoredDir<'d> {
    dir: &'d Path,
    /// Whether the restore has created the directory.
    is_new: bool,
    is_complete: bool,
}

impl Drop for RestoredDir<'_> {
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
            drop(writeln!(io::stderr(), "oraclectl: cannot remove the content of {dir}: {error}; remove it"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;
    use oracled_api::audit::backup::BackedUpFile;
    use oracled_domain::Sha256Hex;

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
        fs::write(backup.path().join("held.key"), "key").expect("the write succeeds");
        let mut manifest = BackupManifest {
            format: 1,
            version: "1".to_owned(),
            created_at: Timestamp::UNIX_EPOCH,
            entries: 0,
            files: vec![backed_up("held.key", "key"), backed_up("segments/1", "a file that is missing")],
        };
        assert!(copy_files(backup.path(), &manifest, state.path()).is_err(), "a file is missing");
        assert!(state.path().join("held.key").exists() && state.path().join(RESTORING_FILE).exists());
        fs::remove_file(state.path().join("held.key")).expect("the removal succeeds");
        fs::remove_file(state.path().join(RESTORING_FILE)).expect("the removal succeeds");
        manifest.files.pop();
        copy_files(backup.path(), &manifest, state.path()).expect("the backup is whole");
        assert!(state.path().join("held.key").exists() && !state.path().join(RESTORING_FILE).exists());
    }
}
