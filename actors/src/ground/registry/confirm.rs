//! Confirmation: what a source has said, and what was declared stale, holds after all.

use super::{Desk, Registry, RegistryError, as_read};
use crate::audit::commit_loop::Decided;
use oracled_domain::audit::event::ground::{ConfirmationCause, ConfirmationEntry};
use oracled_domain::ground::id::SourceId;
use oracled_domain::{Event, EventKind, Peer};
use oracled_store::{Record, RowKey, Write};
use std::sync::Arc;

/// What confirms a source.
#[derive(Debug, Clone)]
pub(crate) struct Confirmation {
    pub(crate) confirmed_by: ConfirmationCause,
    /// What is said of it.
    pub(crate) detail: String,
    /// By whom, where it is somebody.
    pub(crate) peer: Option<Peer>,
    /// The number of invalidations when the source was asked. A later invalidation is not ended. `None` ends any.
    pub(crate) invalidation_count: Option<u64>,
}

impl Desk {
    /// Ends that a source counts as stale. Says whether it did.
    pub(crate) async fn confirm(
        &self,
        oracle_id: &SourceId,
        confirmation: Confirmation,
    ) -> Result<bool, RegistryError> {
        let Confirmation { confirmed_by, detail, peer, invalidation_count } = confirmation;
        let confirmed = self.change(|desk| {
            let (state, revision) = desk.source(oracle_id)?;
            let is_last = invalidation_count.is_none_or(|declared| declared == state.invalidation_count);
            let Some(invalidated_at) = state.stale_since().filter(|_| is_last) else {
                return Ok(Decided::Already(()));
            };
            let timestamp = desk.clock.now();
            let entry = ConfirmationEntry {
                oracle_id: oracle_id.clone(),
                invalidated_at,
                confirmed_by,
                detail: detail.clone(),
                peer,
            };
            let state = state.confirmed(timestamp);
            let record = Record {
                expect: as_read(RowKey::Source(oracle_id.clone()), Some(revision)),
                events: vec![Event::new(timestamp, None, EventKind::SourceConfirmed(entry))],
                writes: vec![Write::PutSource(Arc::new(state))],
                ..Record::default()
            };
            Ok(Decided::Change((), record))
        });
        Ok(confirmed.await?.1)
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
