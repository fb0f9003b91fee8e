//! `POST /v1/backup`: a copy of the state directory while the daemon serves, as a tar archive.

use crate::platform::api::piece_writer::PieceWriter;
use crate::platform::openapi::problems;
use crate::platform::problem::Problem;
use crate::platform::service::{DaemonService, run_blocking, run_to_end};
use actors_platform::caller::spawn_for_caller;
use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use domain_audit::checkpoint::LogSigner;
use domain_audit::event::{BackupEntry, BackupTaken};
use domain_base::caller::PeerCredentials;
use domain_base::digest::Sha256Stream;
use domain_base::event::AuditEvent;
use hyper::Request;
use hyper::header::CONTENT_TYPE;
use oracled_api::audit::backup::{
    BACKUP_FORMAT, BackedUpFile, BackupManifest, CHECKPOINT_FILE, MANIFEST_FILE,
};
use oracled_api::base::problem::ProblemCode;
use oracled_store::{StoreBackup, StoreError};
use std::io::{self, Read, Write};
use std::sync::Arc;
use tar::{Builder, Header};
use tokio::sync::OwnedMutexGuard;
use tokio::task::spawn_blocking;

/// The mode of each file in the archive.
const FILE_MODE: u32 = 0o600;

problems!(BackupProblems: STORE; BackupInProgress SourceDamaged StateDamaged);

/// Back up the whole state without stopping the daemon.
///
/// The daemon first reads every file, and compares it with its checksums and digests. If one is damaged or missing, there is no
/// archive, and `detail` names the file, the byte and the remedy.
///
/// The archive has the state after one commit, without private keys. Its last files are `checkpoint`, the signed checkpoint of that
/// commit, and `manifest.json`, with the length and the SHA-256 of each file, signed with the key of the log. If a file cannot be
/// read, the response breaks off before the manifest. A full disk prevents no backup: if `backup_taken` cannot be logged, it goes to
/// the service log.
#[utoipa::path(
    post,
    path = "/v1/backup",
    operation_id = "take_backup",
    tag = "audit",
    responses(
        BackupProblems,
        (status = 200, description = "The archive", body = Vec<u8>, content_type = "application/x-tar"),
    ),
)]
pub async fn post(
    State(service): State<Arc<DaemonService>>,
    Extension(peer): Extension<PeerCredentials>,
) -> Result<Response, Problem> {
    run_to_end(async move {
        let turn = service.system.erasure.hold().await?;
        let backup = service.system.log.begin_backup().await?;
        // before the first byte: the answer about a damaged file has its name
        let store = service.system.store.clone();
        let backup = run_blocking(move || match backup.verify() {
            Ok(()) => Ok(backup),
            Err(error) => {
                store.note_segment_damage(&error);
                Err(damage_problem(&error))
            }
        })
        .await?;
        Ok(send(service, peer, turn, backup))
    })
    .await
}

/// Whether a request takes a backup. It has no time limit, since all files are read before the response begins.
pub fn has_no_time_limit<B>(request: &Request<B>) -> bool {
    request.uri().path() == "/v1/backup"
}

/// The problem of a state of which no backup can be restored.
fn damage_problem(error: &StoreError) -> Problem {
    tracing::error!(%error, "no backup was made: the state is damaged");
    match error {
        StoreError::Corrupt { detail, .. } | StoreError::Short { detail, .. } => Problem::new(
            ProblemCode::StateDamaged,
            format!(
                "no backup was made, since it could not be restored: {detail}. Keep the earlier backups. oracled writes the segments \
                 again from the database; back up again when `oraclectl status` shows no damage"
            ),
        ),
        error => error.into(),
    }
}

/// Sends the files, and then logs the backup.
fn send(
    service: Arc<DaemonService>,
    peer: PeerCredentials,
    turn: OwnedMutexGuard<()>,
    backup: StoreBackup,
) -> Response {
    let manifest = BackupManifest {
        format: BACKUP_FORMAT,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        created_at: service.system.clock.now(),
        entries: backup.entries,
        log_key: service.log_signer.key().to_string(),
        files: Vec::new(),
    };
    let (mut out, body) = PieceWriter::new();
    let signing = Arc::clone(&service);
    let sending = spawn_blocking(move || {
        let mut sent = SentBackup { manifest, sent: 0 };
        let written = sent.write(&backup, &signing.log_signer, &mut out);
        // the links are removed here, whatever has happened
        drop(backup);
        (written, sent, out)
    });
    spawn_for_caller(async move {
        let _turn = turn;
        let Ok((written, sent, out)) = sending.await else { return };
        let entry =
            BackupEntry { entries: sent.manifest.entries, bytes: sent.sent, complete: written.is_ok(), peer };
        let taken = AuditEvent::new(service.system.clock.now(), None, BackupTaken(entry));
        // an entry that a full disk does not take is in the service log
        let logged = service.system.log.commit(taken.into()).await;
        if let Err(error) = logged {
            tracing::warn!(%error, "a backup could not be logged; its entry is in the service log");
        }
        match written {
            Ok(()) => out.finish(),
            Err(error) => tracing::warn!(%error, "cannot complete a backup; the response breaks off"),
        }
    });
    ([(CONTENT_TYPE, "application/x-tar")], Body::new(body)).into_response()
}

/// The files that were sent.
struct SentBackup {
    manifest: BackupManifest,
    /// Their length, in bytes.
    sent: u64,
}

impl SentBackup {
    /// Writes the archive.
    fn write(&mut self, backup: &StoreBackup, signer: &LogSigner, out: &mut PieceWriter) -> io::Result<()> {
        let mut archive = Builder::new(out);
        for file in backup.files() {
            let content = backup.open(file).map_err(io::Error::other)?;
            self.append(&mut archive, &file.name, file.bytes, content)?;
        }
        let checkpoint = signer.sign(backup.entries, backup.root);
        self.append(&mut archive, CHECKPOINT_FILE, checkpoint.len() as u64, checkpoint.as_bytes())?;
        let manifest = self.manifest.to_text(signer)?;
        archive.append(&header_of(MANIFEST_FILE, manifest.len() as u64)?, manifest.as_bytes())?;
        archive.into_inner()?.flush()
    }

    fn append(
        &mut self,
        archive: &mut Builder<&mut PieceWriter>,
        name: &str,
        bytes: u64,
        content: impl Read,
    ) -> io::Result<()> {
        let mut content = DigestReader { content, digest: Sha256Stream::default(), bytes: 0 };
        archive.append(&header_of(name, bytes)?, &mut content)?;
        self.sent += content.bytes;
        if content.bytes != bytes {
            return Err(io::Error::other(format!("{name} has {} bytes, and had {bytes}", content.bytes)));
        }
        self.manifest.files.push(BackedUpFile {
            name: name.to_owned(),
            bytes,
            sha256: content.digest.finish(),
        });
        Ok(())
    }
}

fn header_of(name: &str, bytes: u64) -> io::Result<Header> {
    let mut header = Header::new_gnu();
    header.set_path(name)?;
    header.set_size(bytes);
    header.set_mode(FILE_MODE);
    header.set_cksum();
    Ok(header)
}

/// Computes the digest of what is read.
struct DigestReader<R> {
    content: R,
    digest: Sha256Stream,
    bytes: u64,
}

impl<R: Read> Read for DigestReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.content.read(buffer)?;
        self.digest.push(buffer.get(..read).unwrap_or_default());
        self.bytes += read as u64;
        Ok(read)
    }
}
