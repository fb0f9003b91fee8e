//! An operator's decisions about runs: approve or discard a held run, undo a completed one.

use super::ending::completed;
use super::flight::{Changed, behind, changed, fly};
use super::flights::Holder;
use super::progress::Progress;
use super::{IngestionError, Shop};
use crate::ground::registry::RegistryError;
use crate::platform::caller::carried;
use oracled_domain::audit::event::ground::RunEntry;
use oracled_domain::ground::run::{Run, RunCounts, RunDecision, RunState, UndoneRun, undo_run_id};
use oracled_domain::ground::timeline::Release;
use oracled_domain::{Event, EventKind, Peer, Sha256Hex};
use oracled_store::ground::staging::{Staged, Staging};
use oracled_store::ground::view::SourceView;
use std::sync::Arc;
use tokio::task::spawn_blocking;

/// A decision: the run, the operator and the reason.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    pub(super) run_id: Sha256Hex,
    pub(super) reason: String,
    pub(super) peer: Peer,
}

/// Reads a held run again without checking its gates. Its records become visible like those of any other run.
pub(super) async fn approve(shop: Arc<Shop>, wanted: Wanted) -> Result<Run, IngestionError> {
    let decision = shop.decision(&wanted);
    let held = shop.held(&wanted.run_id)?;
    let ready = shop.ready_for(&held)?;
    let mut run = Run {
        state: RunState::Running,
        ended_at: None,
        counts: RunCounts::default(),
        rows: None,
        cause: None,
        decision: Some(decision),
        ..held
    };
    let (claim, _) = shop.claim(&run).await?;
    let (source, _) = shop.desk().source(&run.oracle_id)?;
    // another run may have brought the version since
    if let Some(known) = shop.brought_before(&run, &source, run.replace)? {
        return Err(IngestionError::NotHeld { run_id: known.run_id, state: known.state });
    }
    let desk = shop.desk();
    let begun = shop.log.decide_and_commit(|| {
        changed(&desk, &run.oracle_id.clone(), |source| {
            shop.held(&run.run_id)?;
            (run.number, run.invalidation_count) = (source.next_number(), source.invalidation_count);
            let timestamp = shop.clock.now();
            let entry = RunEntry { run: Box::new(run.clone()), peer: Some(wanted.peer) };
            let source = source.with_attempt(&run.run_id);
            Ok(Changed {
                source,
                run: run.clone(),
                events: vec![Event::new(timestamp, None, EventKind::IngestionStarted(entry))],
            })
        })
    });
    begun.await?;
    // the run's number is final only after the commit
    let progress = Arc::new(Progress::new(run.clone()));
    claim.hand_to(&progress);
    shop.metrics.ingesting.started();
    tokio::spawn(carried(fly(shop, ready, claim, progress)));
    Ok(run)
}

/// Discards a held run. Its records never become visible.
pub(super) async fn discard(shop: Arc<Shop>, wanted: Wanted) -> Result<Run, IngestionError> {
    let mut run = shop.held(&wanted.run_id)?;
    (run.state, run.decision) = (RunState::Discarded, Some(shop.decision(&wanted)));
    run.ended_at = Some(shop.clock.now());
    let close = || {
        shop.held(&wanted.run_id)?;
        shop.closed(&shop.desk(), &run, Some(wanted.peer))
    };
    shop.log.decide_and_commit(close).await?;
    shop.metrics.ingesting.decided(&run);
    shop.let_go(&run).await;
    Ok(run)
}

/// Undoes a completed run by a new run. Questions with an earlier `known_at` still see the completed run.
pub(super) async fn undo(shop: Arc<Shop>, wanted: Wanted) -> Result<Run, IngestionError> {
    let unknown = || IngestionError::RunUnknown(wanted.run_id.clone());
    let (undone, _) = shop.store.run(&wanted.run_id)?.ok_or_else(unknown)?;
    let not_completed = || IngestionError::NotCompleted(wanted.run_id.clone());
    let claim = shop.flights.hold(&undone.oracle_id, Holder::Upkeep)?;
    let view = shop.store.view(&undone.oracle_id)?;
    let view = view.ok_or_else(|| RegistryError::SourceUnknown(undone.oracle_id.clone()))?;
    let visible = view.state.completed.iter().rev().find(|completed| completed.run_id == wanted.run_id);
    let number = visible.map(|completed| completed.release.run).ok_or_else(not_completed)?;
    if let Some(by) = view.state.undone_by(number) {
        let (run_id, by) = (wanted.run_id.clone(), by.run_id.clone());
        return Err(IngestionError::Undone { run_id, by });
    }
    if undone.undoes.is_none() && !view.known.counts(number) {
        return Err(not_completed());
    }
    let now = shop.clock.now();
    let target = UndoneRun { run_id: wanted.run_id.clone(), number };
    let next = view.state.next_number();
    let mut run = Run {
        run_id: undo_run_id(&target, next),
        number: next,
        undoes: Some(target),
        requested_by: wanted.peer.uid.to_string(),
        state: RunState::Completed,
        started_at: now,
        ended_at: Some(behind(&view.state, now)),
        counts: RunCounts::default(),
        rows: None,
        cause: None,
        breaches: Vec::new(),
        decision: Some(shop.decision(&wanted)),
        source_url: None,
        retrieved_at: None,
        ..undone
    };
    let release = run.release().ok_or_else(not_completed)?;
    let staged = shop.staged_undo(&run, &release, Arc::clone(&view)).await?;
    if staged.pruned > 0 {
        return Err(IngestionError::ContentPruned { run_id: wanted.run_id, records: staged.pruned });
    }
    (run.counts, run.rows) = (staged.counts.clone(), Some(staged.rows.clone()));
    let desk = shop.desk();
    let committed = shop.log.decide_and_commit(|| {
        changed(&desk, &run.oracle_id, |source| {
            let files = source.files.clone();
            let completed = completed(&run, release.clone(), staged.rows.clone());
            let source = source.with_completed(completed, Vec::new(), files);
            let entry = RunEntry { run: Box::new(run.clone()), peer: Some(wanted.peer) };
            Ok(Changed {
                source,
                run: run.clone(),
                events: vec![Event::new(now, None, EventKind::IngestionEnded(entry))],
            })
        })
    });
    let committed = committed.await;
    // after a failed commit the store may or may not name the files; if not, the next start removes them
    staged.named();
    committed?;
    shop.metrics.ingesting.decided(&run);
    drop(claim);
    Ok(run)
}

impl Shop {
    fn decision(&self, wanted: &Wanted) -> RunDecision {
        RunDecision {
            decided_by: wanted.peer.uid.to_string(),
            decided_at: self.clock.now(),
            reason: wanted.reason.clone(),
        }
    }

    /// The run, which must be held.
    fn held(&self, run_id: &Sha256Hex) -> Result<Run, IngestionError> {
        let unknown = || IngestionError::RunUnknown(run_id.clone());
        let (run, _) = self.store.run(run_id)?.ok_or_else(unknown)?;
        if run.state != RunState::Held {
            return Err(IngestionError::NotHeld { run_id: run.run_id, state: run.state });
        }
        Ok(run)
    }

    /// The files of an undo.
    async fn staged_undo(
        &self,
        run: &Run,
        release: &Release,
        view: Arc<SourceView>,
    ) -> Result<Staged, IngestionError> {
        let staging = Staging::new(self.store.files(), &run.run_id, release.run)?;
        let (release, flights) = (release.clone(), Arc::clone(&self.flights));
        let staged =
            spawn_blocking(move || staging.finish(&view, &release, |_| !flights.is_stopping())).await;
        let staged = staged.map_err(|error| IngestionError::Inside(error.to_string()))??;
        staged.ok_or_else(|| IngestionError::Inside("the daemon is stopping; nothing was undone".into()))
    }
}
