//! The proof of the delivery of a verdict: its entries in the log.

use crate::platform::problem::Problem;
use crate::platform::service::DaemonService;
use actors_upstream::web::witness::SignedCheckpoint;
use actors_verdict::submission::CachedVerdict;
use bytes::Bytes;
use domain_audit::wire::{LogBundle, LogProof, ProvedEntry};
use domain_base::digest::Sha256Hex;
use domain_base::event::Event;
use domain_base::problem::INTERNAL_ERROR;
use domain_base::session_id::SessionId;
use domain_verdict::event::{TmmCrosscheck, VerdictCached};
use oracled_store::{LogLine, LogQuery, Store, StoreError};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::sync::Arc;
use tokio::task::{JoinError, spawn_blocking};

/// The number of entries in the first read. The last one is nearly always about the delivered text.
const NEWEST_ENTRIES: usize = 8;

/// The text of a delivered verdict.
#[derive(Deserialize)]
pub(super) struct DeliveredText<'b> {
    #[serde(borrow)]
    pub(super) verdict: &'b RawValue,
}

/// The text that an entry is about.
#[derive(Deserialize)]
struct JudgedText {
    verdict_sha256: Sha256Hex,
}

/// The document of a delivered verdict with the proof of its delivery.
pub(super) async fn add_proof(
    service: &Arc<DaemonService>,
    session_id: SessionId,
    cached: &CachedVerdict,
) -> Result<Bytes, Problem> {
    let service = Arc::clone(service);
    let body = cached.body.clone();
    let proved = spawn_blocking(move || {
        let document = serde_json::from_slice(&body);
        let DeliveredText { verdict } = document.expect("the document of a delivery has its verdict");
        prove_delivery(&service, &session_id, &Sha256Hex::of(verdict.get().as_bytes()))
    });
    let failed = |error: JoinError| Problem::new(INTERNAL_ERROR, error.to_string());
    let proof = proved.await.map_err(failed)??;
    let proof = proof.map_err(no_delivery)?;
    let proof = serde_json::to_vec(&proof).expect("a proof is plain data with string keys");
    // the verdict in the document must keep its bytes, so the document is not read again
    let document = cached.body.strip_suffix(b"}").unwrap_or(&cached.body);
    Ok([document, br#","proof":"#, &proof, b"}"].concat().into())
}

/// The problem of a log without the entry of the delivery, which begins with the entry `first`.
pub(super) fn no_delivery(first: u64) -> Problem {
    match first {
        1 => Problem::new(INTERNAL_ERROR, "the log has no entry of the delivery"),
        first => Problem::entry_dropped("the entry of the delivery", first),
    }
}

/// The entries about the delivery of the text `sha256` to the session, with their proof. The inner error is the first entry of
/// the log, which lacks that of the delivery.
fn prove_delivery(
    service: &DaemonService,
    session_id: &SessionId,
    sha256: &Sha256Hex,
) -> Result<Result<LogBundle, u64>, StoreError> {
    let store = &service.system.store;
    let Some(delivered) = last_entry(store, session_id, VerdictCached::NAME, sha256)? else {
        return store.first_seq().map(Err);
    };
    let decided = last_entry(store, session_id, TmmCrosscheck::NAME, sha256)?;
    prove_lines(service, decided.into_iter().chain([delivered]).collect()).map(Ok)
}

/// The entries with their proof. The callers are withheld, since the document goes to customers.
pub(super) fn prove_lines(service: &DaemonService, lines: Vec<LogLine>) -> Result<LogBundle, StoreError> {
    let store = &service.system.store;
    let last = lines.iter().map(|line| line.seq).max().unwrap_or_default();
    let SignedCheckpoint { size, note } = service.log_checkpoint(last);
    let mut entries = Vec::new();
    for line in lines {
        if let Some(hashes) = store.prove_entry(line.seq, size)? {
            let line = store.withhold_additions(&line)?;
            entries.push(ProvedEntry { line, proof: LogProof::of(&hashes) });
        }
    }
    Ok(LogBundle { checkpoint: note, entries, continuation: None })
}

/// The last entry of the session with this event about the text `sha256`.
fn last_entry(
    store: &Store,
    session_id: &SessionId,
    event: &str,
    sha256: &Sha256Hex,
) -> Result<Option<LogLine>, StoreError> {
    let query = LogQuery {
        session: Some(session_id.clone()),
        events: vec![event.to_owned()],
        newest: true,
        ..LogQuery::default()
    };
    let is_about = |line: &LogLine| {
        serde_json::from_str(&line.json).is_ok_and(|text: JudgedText| text.verdict_sha256 == *sha256)
    };
    for limit in [NEWEST_ENTRIES, usize::MAX] {
        let lines = store.log(&LogQuery { limit, ..query.clone() })?;
        let is_whole = lines.len() < limit;
        let found = lines.into_iter().rfind(is_about);
        if found.is_some() || is_whole {
            return Ok(found);
        }
    }
    Ok(None)
}
