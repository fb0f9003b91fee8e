//! The proof of a delivered verdict: the entries of its delivery, and that the log has them.

use crate::platform::problem::Problem;
use crate::platform::service::DaemonService;
use bytes::Bytes;
use oracled_actors::upstream::web::witness::SignedCheckpoint;
use oracled_actors::verdict::submission::CachedVerdict;
use oracled_api::audit::proofs::{LogBundle, LogProof, ProvedEntry};
use oracled_api::base::problem::ProblemCode;
use oracled_domain::{SessionId, Sha256Hex};
use oracled_store::{LogLine, LogQuery, Store, StoreError};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::sync::Arc;
use tokio::task::spawn_blocking;

/// The entry of the delivery.
const DELIVERED: &str = "verdict_cached";
/// The entry of the decision that permitted it.
const DECIDED: &str = "tmm_crosscheck";

/// The number of entries in the first read. The last one is nearly always about the delivered text.
const NEWEST_ENTRIES: usize = 8;

/// The text of a delivered verdict.
#[derive(Deserialize)]
struct DeliveredText<'b> {
    #[serde(borrow)]
    verdict: &'b RawValue,
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
    let failed = |detail: String| Problem::new(ProblemCode::InternalError, detail);
    let proof = proved.await.map_err(|error| failed(error.to_string()))??;
    let proof = proof.map_err(|first| match first {
        1 => failed("the log has no entry of the delivery".to_owned()),
        first => Problem::entry_dropped("the entry of the delivery", first),
    })?;
    let proof = serde_json::to_vec(&proof).expect("a proof is plain data with string keys");
    // the verdict in the document must keep its bytes, so the document is not read again
    let document = cached.body.strip_suffix(b"}").unwrap_or(&cached.body);
    Ok([document, br#","proof":"#, &proof, b"}"].concat().into())
}

/// The entries about the delivery of the text `sha256` to the session, with their proof. The inner error is the first entry of
/// the log, which lacks that of the delivery. The callers are withheld, since the document goes to customers.
fn prove_delivery(
    service: &DaemonService,
    session_id: &SessionId,
    sha256: &Sha256Hex,
) -> Result<Result<LogBundle, u64>, StoreError> {
    let store = &service.system.store;
    let Some(delivered) = last_entry(store, session_id, DELIVERED, sha256)? else {
        return store.first_seq().map(Err);
    };
    let decided = last_entry(store, session_id, DECIDED, sha256)?;
    let SignedCheckpoint { size, note } = service.log_checkpoint(delivered.seq);
    let mut entries = Vec::new();
    for line in decided.into_iter().chain([delivered]) {
        if let Some(hashes) = store.prove_entry(line.seq, size)? {
            let line = store.withhold_additions(&line)?;
            entries.push(ProvedEntry { line, proof: LogProof::of(&hashes) });
        }
    }
    Ok(Ok(LogBundle { checkpoint: note, entries, continuation: None }))
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
        event: Some(event.to_owned()),
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
