//! Confirmation: the data of a source that was marked stale is current after all.

use super::sources::put_source;
use super::{Desk, Registry, RegistryError};
use crate::audit::commit_loop::Decided;
use oracled_domain::audit::event::ground::{ConfirmationCause, ConfirmationEntry};
use oracled_domain::ground::id::SourceId;
use oracled_domain::{Event, EventKind, Peer};

/// A confirmation of a source.
#[derive(Debug, Clone)]
pub(crate) struct Confirmation {
    pub(crate) confirmed_by: ConfirmationCause,
    /// The detail, for the log.
    pub(crate) detail: String,
    /// The operator, if there is one.
    pub(crate) peer: Option<Peer>,
    /// The number of invalidations when the source was asked. A later invalidation is not ended. `None` ends any.
    pub(crate) invalidation_count: Option<u64>,
}

impl Desk {
    /// Ends the invalidation of a source. Returns whether the source was marked stale.
    pub(crate) async fn confirm(
        &self,
        oracle_id: &SourceId,
        confirmation: Confirmation,
    ) -> Result<bool, RegistryError> {
        let Confirmation { confirmed_by, detail, peer, invalidation_count } = confirmation;
        let confirmed = self.log.decide_and_commit(|| {
            let (state, revision) = self.source(oracle_id)?;
            let is_last = invalidation_count.is_none_or(|declared| declared == state.invalidation_count);
            let Some(invalidated_at) = state.stale_since().filter(|_| is_last) else {
                return Ok::<_, RegistryError>(Decided::Already(()));
            };
            let timestamp = self.clock.now();
            let entry = ConfirmationEntry {
                oracle_id: oracle_id.clone(),
                invalidated_at,
                confirmed_by,
                detail: detail.clone(),
                peer,
            };
            let event = Event::new(timestamp, None, EventKind::SourceConfirmed(entry));
            Ok(Decided::Change((), put_source(state.confirmed(timestamp), Some(revision), event)))
        });
        Ok(confirmed.await?.1.is_some())
    }
}

impl Registry {
    /// Revokes that all data of a source is marked stale.
    ///
    /// # Errors
    /// `SourceUnknown`, `NotInvalidated`; or the entry cannot be committed, and then nothing changes.
    pub async fn confirm(
        &self,
        oracle_id: &SourceId,
        detail: String,
        peer: Peer,
    ) -> Result<(), RegistryError> {
        let confirmed_by = ConfirmationCause::Manual;
        let confirmation = Confirmation { confirmed_by, detail, peer: Some(peer), invalidation_count: None };
        let confirmed = self.desk.confirm(oracle_id, confirmation).await?;
        if confirmed { Ok(()) } else { Err(RegistryError::NotInvalidated(oracle_id.clone())) }
    }
}
