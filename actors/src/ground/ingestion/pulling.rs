//! Pulls: the daemon fetches payloads on request, by a schedule, or because an answer was stale.

mod due;
mod refresh;
mod release;

use due::Scheduled;
pub(super) use due::begin_due;
pub(super) use refresh::refresh;

use super::archiving::{ARCHIVING, Archiving, NotArchived};
use super::flight::begin;
use super::{Begin, Begun, IngestionError, Shop};
use crate::audit::commit_loop::Decided;
use crate::ground::pull::{Answer, PullError, PullRequest, Pulled, Validators};
use crate::ground::registry::{Confirmation, Ready, RegistryError, as_read};
use jiff::Timestamp;
use jiff::fmt::rfc2822;
use oracled_domain::audit::event::ground::{
    ConfirmationCause, PullEndedEntry, PullFailedEntry, PullStartedEntry,
};
use oracled_domain::documents::DocumentKind;
use oracled_domain::ground::id::{PipelineId, SourceId};
use oracled_domain::ground::pipeline::{LastPull, RegisteredPipeline};
use oracled_domain::ground::run::{Run, RunState};
use oracled_domain::{Event, EventKind, Peer, Sha256Hex};
use oracled_store::ground::archive::Archived;
use oracled_store::{Record, RowKey, Write};
use refresh::Refreshing;
use release::Dated;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;

/// A requested pull.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    pub(super) pipeline_id: PipelineId,
    /// The requester: a user id, `schedule` or `refresh`.
    pub(super) requested_by: String,
    pub(super) peer: Option<Peer>,
}

/// The outcome of a pull.
#[derive(Debug, Clone)]
pub enum PullOutcome {
    /// The source has nothing new.
    NothingNew {
        /// The time of the request.
        retrieved_at: Timestamp,
    },
    /// A payload was received. It is being read, or was read before.
    Begun(Begun),
}

/// The memory of pulls, lost at a restart.
#[derive(Debug, Default)]
pub(super) struct Pulls {
    /// The validators of each pipeline's last payload, with the run that read that payload.
    known: Mutex<HashMap<PipelineId, (Sha256Hex, Validators)>>,
    /// The pulls in progress, at most one for each pipeline. A pull's channel closes when it ends.
    under_way: Mutex<HashMap<PipelineId, watch::Receiver<()>>>,
    /// The state of the refreshes of each source.
    refreshing: Mutex<HashMap<SourceId, Refreshing>>,
    /// The pipelines' schedules.
    due: Mutex<HashMap<PipelineId, Scheduled>>,
}

impl PullOutcome {
    /// The run that reads or has read the received payload, if one was received.
    #[must_use]
    pub fn run(&self) -> Option<&Run> {
        match self {
            Self::NothingNew { .. } => None,
            Self::Begun(Begun::Started(run) | Begun::Unchanged(run)) => Some(run),
        }
    }
}

impl From<NotArchived> for IngestionError {
    fn from(error: NotArchived) -> Self {
        match error {
            NotArchived::Store(error) => Self::Store(error),
            NotArchived::Inside(cause) => Self::Archiving(cause),
        }
    }
}

/// The place of a pull among those in progress, released when it is dropped.
struct Place<'p> {
    pulls: &'p Pulls,
    pipeline_id: &'p PipelineId,
    _ends: watch::Sender<()>,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.pulls.under_way.lock().unwrap_or_else(PoisonError::into_inner).remove(self.pipeline_id);
    }
}

/// Pulls a pipeline's payload and begins its run, unless another pull of the pipeline is in progress. The pull's
/// beginning and end are logged, so the next start can distinguish a missed scheduled pull from a pull that was made.
pub(super) async fn pull(shop: Arc<Shop>, wanted: Wanted) -> Result<PullOutcome, IngestionError> {
    let _place = shop.pulls.place(&wanted.pipeline_id)?;
    let Wanted { pipeline_id, requested_by, peer } = wanted.clone();
    let began_at = shop.clock.now();
    let entry = PullStartedEntry { pipeline_id, requested_by, peer };
    shop.note_pull(
        &wanted,
        LastPull { began_at, ended_at: None },
        Event::new(began_at, None, EventKind::PullStarted(entry)),
    )
    .await?;
    let pulled = try_pull(Arc::clone(&shop), &wanted).await;
    let Wanted { pipeline_id, requested_by, peer } = wanted.clone();
    let timestamp = shop.clock.now();
    let event = match &pulled {
        Ok(outcome) => {
            let run_id = outcome.run().map(|run| run.run_id.clone());
            Event::new(
                timestamp,
                None,
                EventKind::PullEnded(PullEndedEntry { pipeline_id, requested_by, run_id, peer }),
            )
        }
        Err(error) => {
            shop.metrics.ingesting.pull_failed();
            let cause = error.to_string();
            Event::new(
                timestamp,
                None,
                EventKind::PullFailed(PullFailedEntry { pipeline_id, requested_by, cause, peer }),
            )
        }
    };
    shop.note_pull(&wanted, LastPull { began_at, ended_at: Some(timestamp) }, event).await?;
    pulled
}

async fn try_pull(shop: Arc<Shop>, wanted: &Wanted) -> Result<PullOutcome, IngestionError> {
    let ready = shop.desk().pipeline(&wanted.pipeline_id)?;
    let said = shop.said(&ready, shop.clock.now())?;
    // read before the request: the payload does not end a later invalidation
    let invalidation_count = said.invalidation_count();
    let known = said.read_by(&ready).map(|run| shop.pulls.validators(run)).unwrap_or_default();
    let request = PullRequest::of(&ready.definition.pipeline, known);
    let request = request.ok_or_else(|| IngestionError::NotPulled(wanted.pipeline_id.clone()))?;
    let archiving = Archiving::begin(shop.store.files().clone());
    let answer = shop.puller.pull(&request, async |piece| archiving.push(piece).await).await;
    let pulled = match answer {
        Ok(Answer::Payload(pulled)) => pulled,
        Ok(Answer::Unchanged { retrieved_at }) => {
            return shop.nothing_new(wanted, said.read_by(&ready), invalidation_count, retrieved_at).await;
        }
        Err(PullError::Keep(_)) => {
            // the archive has the cause
            archiving.finish().await?;
            return Err(IngestionError::Archiving("the archive rejected a piece of the payload".into()));
        }
        Err(error) => return Err(error.into()),
    };
    let _turn = ARCHIVING.lock().await;
    let payload = archiving.finish().await?;
    shop.read(wanted, &ready, invalidation_count, pulled, payload).await
}

impl Shop {
    /// Commits the beginning or the end of a pull, with its entry.
    async fn note_pull(&self, wanted: &Wanted, last: LastPull, event: Event) -> Result<(), IngestionError> {
        let pipeline_id = &wanted.pipeline_id;
        let changed = self.log.decide_and_commit(|| {
            let unknown = || RegistryError::PipelineUnknown(pipeline_id.clone());
            let (registered, revision) = self.store.pipeline(pipeline_id)?.ok_or_else(unknown)?;
            let record = Record {
                expect: as_read(
                    RowKey::Document(DocumentKind::Pipeline, pipeline_id.to_string()),
                    Some(revision),
                ),
                events: vec![event.clone()],
                writes: vec![Write::document(
                    DocumentKind::Pipeline,
                    pipeline_id,
                    &RegisteredPipeline { last_pull: Some(last), ..registered },
                )],
                ..Record::default()
            };
            Ok::<_, RegistryError>(Decided::Change((), record))
        });
        Ok(changed.await.map(drop)?)
    }

    /// Whether the source has only one pipeline, which therefore brings all of its data.
    fn is_all_of(&self, oracle_id: &SourceId) -> Result<bool, IngestionError> {
        let pipelines = self.store.pipelines()?;
        Ok(pipelines.iter().filter(|known| known.oracle_id == *oracle_id).count() == 1)
    }

    /// Ends a pull that found the payload of `run` again. If `run` has all of the source's data, this confirms the source,
    /// unless it was invalidated after the pull began.
    async fn nothing_new(
        &self,
        wanted: &Wanted,
        run: Option<&Run>,
        invalidation_count: u64,
        retrieved_at: Timestamp,
    ) -> Result<PullOutcome, IngestionError> {
        if let Some(run) = run
            && self.is_all_of(&run.oracle_id)?
        {
            let confirmation = Confirmation {
                confirmed_by: ConfirmationCause::Pull,
                detail: format!("pipeline {} still brings version {}", run.pipeline_id, run.input.version),
                peer: wanted.peer,
                invalidation_count: Some(invalidation_count),
            };
            self.desk().confirm(&run.oracle_id, confirmation).await?;
        }
        Ok(PullOutcome::NothingNew { retrieved_at })
    }

    /// Begins the run of a pulled payload, unless the payload was read before.
    async fn read(
        self: &Arc<Self>,
        wanted: &Wanted,
        ready: &Ready,
        invalidation_count: u64,
        pulled: Pulled,
        payload: Archived,
    ) -> Result<PullOutcome, IngestionError> {
        let raw_sha256 = payload.sha256.clone();
        let Pulled { url, validators, retrieved_at, .. } = pulled;
        let said = self.said(ready, retrieved_at)?;
        if let Some(run) = said.read_by(ready).filter(|run| run.input.raw_sha256 == raw_sha256) {
            self.pulls.remember(run, validators);
            self.store.remove_new_payload(&raw_sha256)?;
            return self.nothing_new(wanted, Some(run), invalidation_count, retrieved_at).await;
        }
        let modified = validators.last_modified.as_deref().and_then(|text| rfc2822::parse(text).ok());
        let modified = modified.map(|modified| modified.timestamp());
        let Dated { version, released_at } = said.dated(&raw_sha256, modified, retrieved_at);
        let message = Begin {
            pipeline_id: wanted.pipeline_id.clone(),
            version,
            released_at,
            replace: false,
            payload,
            source_url: Some(url),
            retrieved_at: Some(retrieved_at),
            invalidation_count: Some(invalidation_count),
            requested_by: wanted.requested_by.clone(),
            peer: wanted.peer,
        };
        let begun = begin(Arc::clone(self), message).await;
        // after a failed commit the run may be durable; then the next start needs the payload
        if !matches!(begun, Ok(Begun::Started(_)) | Err(IngestionError::Commit(_))) {
            self.store.remove_new_payload(&raw_sha256)?;
        }
        let begun = begun?;
        let (Begun::Started(run) | Begun::Unchanged(run)) = &begun;
        tokio::spawn(Arc::clone(self).remember_once_visible((**run).clone(), validators));
        Ok(PullOutcome::Begun(begun))
    }

    /// Remembers the validators of a payload once its run is visible. The payload of a failed run is pulled again.
    async fn remember_once_visible(self: Arc<Self>, run: Run, validators: Validators) {
        self.flights.until_left(&run.run_id).await;
        if let Ok(Some((ended, _))) = self.store.run(&run.run_id)
            && ended.state == RunState::Completed
        {
            self.pulls.remember(&ended, validators);
        }
    }
}

impl Pulls {
    /// The place of a pipeline's pull, unless another pull has it.
    fn place<'p>(&'p self, pipeline_id: &'p PipelineId) -> Result<Place<'p>, IngestionError> {
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        if under_way.contains_key(pipeline_id) {
            return Err(IngestionError::Pulling(pipeline_id.clone()));
        }
        let (ends, ended) = watch::channel(());
        under_way.insert(pipeline_id.clone(), ended);
        Ok(Place { pulls: self, pipeline_id, _ends: ends })
    }

    /// Waits for the end of a pipeline's pull, if one is in progress.
    async fn ended(&self, pipeline_id: &PipelineId) {
        let ended = self.under_way.lock().unwrap_or_else(PoisonError::into_inner).get(pipeline_id).cloned();
        if let Some(mut ended) = ended {
            // nothing is sent: the channel closes at the end
            drop(ended.changed().await);
        }
    }

    /// The validators of the payload of `run`, unless its pipeline has brought another payload since.
    fn validators(&self, run: &Run) -> Validators {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.get(&run.pipeline_id).filter(|(run_id, _)| *run_id == run.run_id);
        known.map(|(_, validators)| validators.clone()).unwrap_or_default()
    }

    fn remember(&self, run: &Run, validators: Validators) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(run.pipeline_id.clone(), (run.run_id.clone(), validators));
    }
}
