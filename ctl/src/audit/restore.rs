//! `oraclectl restore`.

use super::backup::{
    NewDir, check_file, open_regular, path_in, sync_dirs, unusable, verify_manifest, write_file,
};
use super::verify_directory::{ComparedCheckpoint, VerifiedLog, verify_directory};
use crate::audit::verification::{LogKeys, refused};
use crate::base::error::CtlError;
use crate::base::input::{decode_secret_key, progress_bar};
use crate::base::output::print_json;
use crate::base::program::examples;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use domain_audit::checkpoint::{LogKey, LogSigner};
use domain_audit::wire::{BackupManifest, CHECKPOINT_FILE};
use domain_base::text_form::visible_line;
use domain_base::wording::format_count;
use oracled_store::RESTORING_FILE;
use serde_json::json;
use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

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
    #[command(flatten)]
    restore: BackupRestore,
}

impl RestoreArgs {
    pub(crate) fn run(&self, is_json: bool, out: &mut dyn Write) -> Result<(), CtlError> {
        self.restore.run(is_json, out)
    }
}

/// A backup, the new state directory, and the keys.
#[derive(Debug, clap::Args)]
pub(crate) struct BackupRestore {
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

impl BackupRestore {
    /// The state directory.
    pub(crate) fn state_dir(&self) -> &Path {
        &self.state_dir
    }

    /// Restores for a host of a cluster, which needs the keys of the other hosts.
    pub(crate) fn run_for_cluster(&self, is_json: bool, out: &mut dyn Write) -> Result<u64, CtlError> {
        let found = [(&self.log_key, LOG_KEY), (&self.held_key, HELD_KEY)];
        for (file, names) in found {
            if PrivateKey::find(file.as_deref(), names)?.is_none() {
                let (name, credential) = names;
                let message = format!(
                    "a host of a cluster needs the {name} of the other hosts; name its file, or give systemd's credential {credential}"
                );
                return Err(refused(message));
            }
        }
        let BackupManifest { entries, removed_up_to, .. } = self.restore(is_json, out)?;
        Ok(removed_up_to.unwrap_or(entries))
    }

    pub(crate) fn run(&self, is_json: bool, out: &mut dyn Write) -> Result<(), CtlError> {
        let BackupManifest { created_at, .. } = self.restore(is_json, out)?;
        if !is_json {
            writeln!(
                out,
                "note: sessions that were erased after {created_at} are back; erase them again with `oraclectl erase`. The log of the \
                 former daemon names them: `grep session_erased oracle_log.jsonl` in its state directory, or `oraclectl log --event \
                 session_erased` while it serves"
            )?;
        }
        Ok(())
    }

    fn restore(&self, is_json: bool, out: &mut dyn Write) -> Result<BackupManifest, CtlError> {
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
            print_json(
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
            )?;
            return Ok(manifest);
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
        writeln!(
            out,
            "next: give the directory to the user of the daemon, for example `chown -R oracled:oracled {state}`, then start the daemon"
        )?;
        Ok(manifest)
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
    use domain_audit::wire::BackedUpFile;
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
            removed_up_to: None,
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
