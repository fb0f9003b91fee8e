//! The proof of a delivered verdict: the entries of its delivery, and that the log has them.

use crate::platform::problem::Problem;
use crate::platform::service::DaemonService;
use bytes::Bytes;
use oracled_actors::verdict::submission::CachedVerdict;
use oracled_api::audit::proofs::{LogBundle, LogProof, ProvedEntry};
use oracled_api::base::problem::ProblemCode;
use oracled_domain::{SessionId, Sha256Hex};
use oracled_store::{LogLine, LogQuery, Store, StoreError};
use serde::Deserialize;
use std::sync::Arc;
use tokio::task::spawn_blocking;

/// The entry of the delivery.
const DELIVERED: &str = "verdict_cached";
/// The entry of the decision that permitted it.
const DECIDED: &str = "tmm_crosscheck";

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
    let proved = spawn_blocking(move || prove_delivery(&service, &session_id)).await;
    let proof = proved.map_err(|error| Problem::new(ProblemCode::InternalError, error.to_string()))??;
    let proof = serde_json::to_vec(&proof).expect("a proof is plain data with string keys");
    // the verdict in the document must keep its bytes, so the document is not read again
    let document = cached.body.strip_suffix(b"}").unwrap_or(&cached.body);
    Ok([document, br#","proof":"#, &proof, b"}"].concat().into())
}

/// The entries about the delivery of the session's verdict, with their proof. It is without entries if the log has none.
fn prove_delivery(service: &DaemonService, session_id: &SessionId) -> Result<LogBundle, StoreError> {
    let store = &service.system.store;
    let delivered = last_entry(store, session_id, DELIVERED, None)?;
    let decided = match &delivered {
        Some((_, sha256)) => last_entry(store, session_id, DECIDED, Some(sha256))?,
        None => None,
    };
    let (size, root) = store.log_head();
    let mut entries = Vec::new();
    for (line, _) in decided.into_iter().chain(delivered) {
        if let Some(hashes) = store.prove_entry(line.seq, size)? {
            entries.push(ProvedEntry { line: line.json, proof: LogProof::of(&hashes) });
        }
    }
    Ok(LogBundle { checkpoint: service.log_signer.sign(size, root), entries, continuation: None })
}

/// The last entry of the session with this event, and about the text `sha256` if one is given.
fn last_entry(
    store: &Store,
    session_id: &SessionId,
    event: &str,
    sha256: Option<&Sha256Hex>,
) -> Result<Option<(LogLine, Sha256Hex)>, StoreError> {
    let query = LogQuery {
        session: Some(session_id.clone()),
        event: Some(event.to_owned()),
        limit: usize::MAX,
        ..LogQuery::default()
    };
    let about = |line: LogLine| {
        let text: JudgedText = serde_json::from_str(&line.json).ok()?;
        Some((line, text.verdict_sha256)).filter(|(_, found)| sha256.is_none_or(|sha256| found == sha256))
    };
    Ok(store.log(&query)?.into_iter().filter_map(about).next_back())
}
