//! Confirmation: the data of a source that was marked stale is current after all.

use super::sources::put_source;
use super::{CommitContext, DocumentRegistry, RegistryError};
use actors_audit::commit_loop::CommitDecision;
use domain_base::caller::PeerCredentials;
use domain_base::event::AuditEvent;
use domain_ground::event::{ConfirmationCause, ConfirmationEntry, SourceConfirmed};
use domain_ground::id::SourceId;

#[derive(Debug, Clone)]
pub(crate) struct SourceConfirmation {
    pub(crate) confirmed_by: ConfirmationCause,
    /// The detail, for the log.
    pub(crate) detail: String,
    /// The operator, if there is one.
    pub(crate) peer: Option<PeerCredentials>,
    /// The number of invalidations when the source was asked. A later invalidation is not ended. `None` ends any.
    pub(crate) invalidation_count: Option<u64>,
}

impl CommitContext {
    /// Ends the invalidation of a source. Returns whether the source was marked stale.
    pub(crate) async fn confirm(
        &self,
        oracle_id: &SourceId,
        confirmation: SourceConfirmation,
    ) -> Result<bool, RegistryError> {
        let SourceConfirmation { confirmed_by, detail, peer, invalidation_count } = confirmation;
        let confirmed = self.log.decide_and_commit(|| {
            let (state, revision) = self.source(oracle_id)?;
            let is_last = invalidation_count.is_none_or(|declared| declared == state.invalidation_count);
            let Some(invalidated_at) = state.stale_since().filter(|_| is_last) else {
                return Ok::<_, RegistryError>(CommitDecision::Already(()));
            };
            let timestamp = self.clock.now();
            let entry = ConfirmationEntry {
                oracle_id: oracle_id.clone(),
                invalidated_at,
                confirmed_by,
                detail: detail.clone(),
                peer,
            };
            let event = AuditEvent::new(timestamp, None, SourceConfirmed(entry));
            Ok(CommitDecision::Change((), put_source(state.confirmed(timestamp), Some(revision), event)))
        });
        Ok(confirmed.await?.1.is_some())
    }
}

impl DocumentRegistry {
    /// Revokes that all data of a source is marked stale.
    ///
    /// # Errors
    /// `SourceUnknown`, `NotInvalidated`; or the entry cannot be committed, and then nothing changes.
    pub async fn confirm(
        &self,
        oracle_id: &SourceId,
        detail: String,
        peer: PeerCredentials,
    ) -> Result<(), RegistryError> {
        let confirmed_by = ConfirmationCause::Manual;
        let confirmation =
            SourceConfirmation { confirmed_by, detail, peer: Some(peer), invalidation_count: None };
        let confirmed = self.context.confirm(oracle_id, confirmation).await?;
        if confirmed { Ok(()) } else { Err(RegistryError::NotInvalidated(oracle_id.clone())) }
    }
}
