//! Handlers of the audit log on the control socket.

use crate::platform::api::body::PieceWriter;
use crate::platform::api::request::QueryParams;
use crate::platform::logged_read::LoggedRead;
use crate::platform::openapi::{SESSION, STORE, problems};
use crate::platform::problem::Problem;
use crate::platform::routes::{Routes, routes};
use crate::platform::service::{DaemonService, run_blocking, run_to_end};
use actors_platform::caller::spawn_for_caller;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use bytes::Bytes;
use domain_audit::checkpoint::LogSigner;
use domain_audit::event::{BackupEntry, BackupTaken, ReadSubject};
use domain_audit::log_tiles::{TileContent, TileFile, TilePathError, TilePlace};
use domain_audit::log_tree::TreeHash;
use domain_audit::problem::{BACKUP_IN_PROGRESS, ENTRY_DROPPED, STATE_DAMAGED};
use domain_audit::wire::{
    BACKUP_FORMAT, BackedUpFile, BackupManifest, CHECKPOINT_FILE, CheckpointParams, ContinuationParams,
    EntryProofParams, LogEntry, LogParams, LogProof, MANIFEST_FILE,
};
use domain_base::caller::PeerCredentials;
use domain_base::digest::Sha256Stream;
use domain_base::event::{AuditEvent, Event, LoggedEvent};
use domain_base::problem::{
    FACTS_NOT_HERE, INTERNAL_ERROR, INVALID_REQUEST, INVALID_SESSION_ID, SOURCE_DAMAGED,
};
use domain_base::session_id::SessionId;
use hyper::Request;
use hyper::header::{CONTENT_TYPE, HeaderName};
use jiff::Timestamp;
use oracled_api::streamed_body::{StreamedBody, StreamedBodySender};
use oracled_domain::events::{event_type, event_types};
use oracled_store::{LogLine, LogPage, LogQuery, Store, StoreBackup, StoreError};
use std::io::{self, Read, Write};
use std::sync::Arc;
use tar::{Builder, Header};
use tokio::sync::OwnedMutexGuard;
use tokio::task::spawn_blocking;

/// The routes of the control socket.
pub(crate) fn routes() -> Routes {
    routes![
        read_log,
        follow_log,
        read_log_checkpoint,
        prove_log_entry,
        prove_log_continuation,
        read_log_tile,
        take_backup
    ]
}

const MEDIA_TYPE: &str = "application/x-ndjson";

problems!(ReadProblems: SESSION STORE);

/// Read entries of the audit log, one per line, the lowest number first.
///
/// The answer has the entries up to the request. The entry `operator_read`, which follows them, names the reader. If an entry cannot be
/// read, the response breaks off.
#[utoipa::path(
    get,
    path = "/v1/log",
    operation_id = "read_log",
    tag = "audit",
    params(LogParams),
    responses(
        ReadProblems,
        (status = 200, description = "One entry per line", body = LogEntry, content_type = "application/x-ndjson"),
    ),
)]
pub async fn read_log(
    State(service): State<Arc<DaemonService>>,
    read: LoggedRead,
    QueryParams(params): QueryParams<LogParams>,
) -> Result<Response, Problem> {
    let store = service.system.store.clone();
    let first = read_page(store.clone(), parse_log_query(params)?).await?;
    let up_to = store.last_seq();
    read.log(&service, ReadSubject::Log).await?;
    Ok(stream_response(|sender| send_all(store, first, up_to, sender)))
}

problems!(FollowProblems: SESSION STORE);

/// Follow the audit log until the client disconnects.
///
/// The selected entries are followed by each new entry as it becomes durable. The entry `operator_read`, one for a request, names the
/// reader.
#[utoipa::path(
    get,
    path = "/v1/log/follow",
    operation_id = "follow_log",
    tag = "audit",
    params(LogParams),
    responses(
        FollowProblems,
        (status = 200, description = "One entry per line", body = LogEntry, content_type = "application/x-ndjson"),
    ),
)]
pub async fn follow_log(
    State(service): State<Arc<DaemonService>>,
    read: LoggedRead,
    QueryParams(params): QueryParams<LogParams>,
) -> Result<Response, Problem> {
    let query = parse_log_query(params)?;
    read.log(&service, ReadSubject::Log).await?;
    Ok(stream_response(|sender| send_and_follow(service, query, sender)))
}

/// A response that a separate task sends. If the task fails, the response breaks off.
fn stream_response<F>(sending: impl FnOnce(StreamedBodySender) -> F) -> Response
where
    F: Future<Output = Result<(), Problem>> + Send + 'static,
{
    let (sender, body) = StreamedBody::new(1);
    let sending = sending(sender);
    tokio::spawn(async move {
        if let Err(problem) = sending.await {
            tracing::warn!("cannot send the log; the response breaks off: {problem}");
        }
    });
    ([(CONTENT_TYPE, MEDIA_TYPE)], Body::new(body)).into_response()
}

/// Sends `page` and the pages after it, up to the entry `up_to`.
async fn send_all(
    store: Store,
    mut page: LogPage,
    up_to: u64,
    mut sender: StreamedBodySender,
) -> Result<(), Problem> {
    while sender.send(join_lines(&page.lines)).await.is_ok() {
        // the log grows while it is sent, also by the entries of reads
        let Some(next) = page.next.filter(|next| next.after < up_to) else { break };
        page = read_page(store.clone(), next).await?;
        page.lines.retain(|line| line.seq <= up_to);
    }
    sender.finish();
    Ok(())
}

async fn send_and_follow(
    service: Arc<DaemonService>,
    mut query: LogQuery,
    mut sender: StreamedBodySender,
) -> Result<(), Problem> {
    let mut report = service.system.log.report();
    let mut stopping = service.subscribe_stop();
    loop {
        report.mark_unchanged();
        let reached = service.system.store.last_seq();
        let LogPage { lines, next, .. } = read_page(service.system.store.clone(), query.clone()).await?;
        // an empty page is not sent, but shows whether anyone still reads
        if sender.send(join_lines(&lines)).await.is_err() || *stopping.borrow() {
            break;
        }
        if let Some(next) = next {
            query = next;
            continue;
        }
        let full = lines.len() >= query.limit && !query.newest;
        query.after = lines.last().map_or(query.after, |line| line.seq);
        query = LogQuery { newest: false, limit: usize::MAX, ..query };
        if full {
            continue;
        }
        query.after = query.after.max(reached);
        tokio::select! {
            changed = report.changed() => if changed.is_err() { break },
            () = sender.wait_until_dropped() => break,
            _ = stopping.wait_for(|stopping| *stopping) => break,
        }
    }
    sender.finish();
    Ok(())
}

fn parse_log_query(params: LogParams) -> Result<LogQuery, Problem> {
    let session = params.session.map(SessionId::try_from).transpose();
    let session = session.map_err(|error| Problem::new(INVALID_SESSION_ID, error.to_string()))?;
    let events: Vec<_> = params.event.iter().flat_map(|names| names.split(',')).map(String::from).collect();
    if let Some(event) = events.iter().find(|event| event_type(event).is_none()) {
        let known: Vec<_> = event_types().map(|kind| kind.name).collect();
        let known = known.join(", ");
        return Err(Problem::new(INVALID_REQUEST, format!("`{event}` is not an event; allowed: {known}")));
    }
    let limit = *params.limit;
    let newest = params.after.is_none() && params.since.is_none();
    let after = params.after.unwrap_or(0);
    let LogParams { execution, request_id, since, .. } = params;
    Ok(LogQuery {
        session,
        execution,
        request_id,
        events,
        since,
        after,
        limit,
        newest,
        skips_unreadable: false,
    })
}

async fn read_page(store: Store, query: LogQuery) -> Result<LogPage, Problem> {
    let page = spawn_blocking(move || store.log_page(&query)).await;
    Ok(page.map_err(|error| Problem::new(INTERNAL_ERROR, error.to_string()))??)
}

fn join_lines(lines: &[LogLine]) -> Bytes {
    lines.iter().flat_map(|line| [line.json.as_str(), "\n"]).collect::<String>().into()
}

problems!(CheckpointProblems: STORE; INVALID_REQUEST);

/// Sign a checkpoint of the log: its size and the root of its Merkle tree.
///
/// It is a signed note, in the formats C2SP `tlog-checkpoint` and `signed-note`. It has the cosignatures of the witnesses (C2SP
/// `tlog-cosignature`) that have cosigned a checkpoint of this size.
#[utoipa::path(
    get,
    path = "/v1/log/checkpoint",
    operation_id = "read_log_checkpoint",
    tag = "audit",
    params(CheckpointParams),
    responses(
        CheckpointProblems,
        (status = 200, description = "The checkpoint", body = String, content_type = "text/plain"),
    ),
)]
pub async fn read_log_checkpoint(
    State(service): State<Arc<DaemonService>>,
    QueryParams(CheckpointParams { cosigned }): QueryParams<CheckpointParams>,
) -> String {
    service.log_checkpoint(if cosigned.is_some() { 0 } else { u64::MAX }).note
}

problems!(TileProblems: STORE; ENTRY_DROPPED INVALID_REQUEST);

/// Read a tile of the log's Merkle tree, or the leaves under one.
///
/// The path and the content are those of C2SP `tlog-tiles`. The leaves have hashes in place of the values that can be erased. The entry
/// `operator_read` names the reader of leaves.
#[utoipa::path(
    get,
    path = "/v1/log/tile/{*path}",
    operation_id = "read_log_tile",
    tag = "audit",
    params(("path" = String, Path, description = "The path of the tile, such as `0/x001/067` or `entries/005.p/8`")),
    responses(
        TileProblems,
        (status = 200, description = "The tile", body = Vec<u8>, content_type = "application/octet-stream"),
    ),
)]
pub async fn read_log_tile(
    State(service): State<Arc<DaemonService>>,
    read: LoggedRead,
    path: Result<Path<String>, PathRejection>,
) -> Result<([(HeaderName, &'static str); 1], Vec<u8>), Problem> {
    let Path(path) = path.map_err(|error| Problem::new(INVALID_REQUEST, error.body_text()))?;
    let file: TileFile =
        path.parse().map_err(|error: TilePathError| Problem::new(INVALID_REQUEST, error.to_string()))?;
    let store = service.system.store.clone();
    let content = run_blocking(move || read_tile(&store, file)).await?;
    let unknown = || Problem::new(INVALID_REQUEST, format!("the log has no tile {file}"));
    let content = content.ok_or_else(unknown)?;
    if file.content == TileContent::Leaves {
        read.log(&service, ReadSubject::Log).await?;
    }
    Ok(([(CONTENT_TYPE, "application/octet-stream")], content))
}

/// The content of a file of the log in tiles; `None` if the log has fewer entries.
fn read_tile(store: &Store, file: TileFile) -> Result<Option<Vec<u8>>, Problem> {
    let TileFile { content, index, width } = file;
    if let TileContent::Hashes(level) = content {
        let hashes = store.log_tile(TilePlace { level, index }, width)?;
        return Ok(hashes.map(|hashes| hashes.as_flattened().to_vec()));
    }
    let first = store.first_seq()?;
    if file.entries().start + 1 < first {
        return Err(Problem::entry_dropped(format!("an entry of {file}"), first));
    }
    let Some(leaves) = store.log_leaves(file.entries())? else { return Ok(None) };
    let mut bundle = Vec::new();
    for leaf in leaves {
        let too_long = |_| {
            let detail = format!("an entry of {file} is too long for a tile: {} bytes", leaf.len());
            Problem::new(INTERNAL_ERROR, detail)
        };
        bundle.extend_from_slice(&u16::try_from(leaf.len()).map_err(too_long)?.to_be_bytes());
        bundle.extend_from_slice(leaf.as_bytes());
    }
    Ok(Some(bundle))
}

problems!(ProofProblems: STORE; INVALID_REQUEST);

/// Prove that the log has an entry.
///
/// The proof is for the tree of the first `size` entries, by RFC 6962.
#[utoipa::path(
    get,
    path = "/v1/log/proof",
    operation_id = "prove_log_entry",
    tag = "audit",
    params(EntryProofParams),
    responses(
        ProofProblems,
        (status = 200, description = "The proof", body = LogProof),
    ),
)]
pub async fn prove_log_entry(
    State(service): State<Arc<DaemonService>>,
    QueryParams(EntryProofParams { seq, size }): QueryParams<EntryProofParams>,
) -> Result<Json<LogProof>, Problem> {
    let store = service.system.store.clone();
    let unknown = move || format!("the log has no entry {seq} among its first {size}");
    answer(spawn_blocking(move || store.prove_entry(seq, size)).await, unknown)
}

/// Prove that the log continues an earlier one.
///
/// The proof is for the trees of the first `old_size` and of the first `size` entries, by RFC 6962.
#[utoipa::path(
    get,
    path = "/v1/log/continuation",
    operation_id = "prove_log_continuation",
    tag = "audit",
    params(ContinuationParams),
    responses(
        ProofProblems,
        (status = 200, description = "The proof", body = LogProof),
    ),
)]
pub async fn prove_log_continuation(
    State(service): State<Arc<DaemonService>>,
    QueryParams(ContinuationParams { old_size, size }): QueryParams<ContinuationParams>,
) -> Result<Json<LogProof>, Problem> {
    let store = service.system.store.clone();
    let unknown = move || format!("the log has no first {old_size} of {size} entries");
    answer(spawn_blocking(move || store.prove_continuation(old_size, size)).await, unknown)
}

fn answer(
    proof: Result<Result<Option<Vec<TreeHash>>, StoreError>, tokio::task::JoinError>,
    unknown: impl FnOnce() -> String,
) -> Result<Json<LogProof>, Problem> {
    let proof = proof.map_err(|error| Problem::new(INTERNAL_ERROR, error.to_string()))??;
    let hashes = proof.ok_or_else(|| Problem::new(INVALID_REQUEST, unknown()))?;
    Ok(Json(LogProof::of(&hashes)))
}

/// The mode of each file in the archive.
const FILE_MODE: u32 = 0o600;

problems!(BackupProblems: STORE; BACKUP_IN_PROGRESS SOURCE_DAMAGED FACTS_NOT_HERE STATE_DAMAGED);

/// Back up the whole state without stopping the daemon.
///
/// The daemon first reads every file, and compares it with its checksums and digests. A damaged segment is first written again from its
/// copy. If another file, or a segment like its copy, is damaged or missing, there is no archive, and `detail` names the file, the byte
/// and the remedy.
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
pub async fn take_backup(
    State(service): State<Arc<DaemonService>>,
    Extension(peer): Extension<PeerCredentials>,
) -> Result<Response, Problem> {
    run_to_end(async move {
        let turn = service.system.erasure.hold().await?;
        // before the backup: it may have the data of later removals
        let removed_up_to = service.system.erasure.removed_up_to();
        // before the first byte: the answer about a damaged file has its name
        let mut begun = begin_backup(&service).await?;
        if let Err(error) = &begun
            && let Some(damage) = error.damage()
        {
            // an archive has no copies of segments
            service.system.store.note_segment_damage(error);
            begun = match service.repair_segments(&turn, damage.to_owned()).await {
                Ok(()) => begin_backup(&service).await?,
                Err(error) => Err(error),
            };
        }
        let backup = begun.map_err(|error| damage_problem(&error))?;
        Ok(send(service, peer, turn, (backup, removed_up_to)))
    })
    .await
}

/// Begins a backup, and reads every file of it.
async fn begin_backup(service: &DaemonService) -> Result<Result<StoreBackup, StoreError>, Problem> {
    let begun = service.system.log.begin_backup().await;
    run_blocking(move || Ok::<_, Problem>(begun.and_then(|backup| backup.verify().map(|()| backup)))).await
}

/// Whether a request takes a backup. It has no time limit, since all files are read before the response begins.
pub fn is_backup<B>(request: &Request<B>) -> bool {
    request.uri().path() == "/v1/backup"
}

/// The problem of a state of which no backup can be made or restored.
fn damage_problem(error: &StoreError) -> Problem {
    tracing::error!(error = error.to_cause(), "no backup was made");
    match error.damage() {
        Some(damage) => Problem::new(
            STATE_DAMAGED,
            format!(
                "no backup was made, since it could not be restored: {damage}. Keep the earlier backups. oracled rebuilds the store from \
                 the undamaged data (docs/recover.md#damage)"
            ),
        ),
        None => error.into(),
    }
}

/// Number of the newest entries of backups among which a complete one is searched.
const NEWEST_BACKUPS: usize = 20;

/// When the last complete backup was sent. Blocks on disk reads.
///
/// # Errors
/// The log cannot be read.
pub(crate) fn last_backup_at(store: &Store) -> Result<Option<Timestamp>, StoreError> {
    let events = vec![BackupTaken::NAME.to_owned()];
    let query = LogQuery { events, newest: true, limit: NEWEST_BACKUPS, ..LogQuery::default() };
    for line in store.log(&query)?.iter().rev() {
        let taken: LoggedEvent<BackupTaken> = store.parse_entry(line)?;
        if taken.event.0.complete {
            return Ok(Some(taken.timestamp));
        }
    }
    Ok(None)
}

/// Sends the files, and then logs the backup.
fn send(
    service: Arc<DaemonService>,
    peer: PeerCredentials,
    turn: OwnedMutexGuard<()>,
    (backup, removed_up_to): (StoreBackup, Option<u64>),
) -> Response {
    let manifest = BackupManifest {
        format: BACKUP_FORMAT,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        created_at: service.system.clock.now(),
        entries: backup.entries,
        removed_up_to,
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
