//! Reads one record by its id, even if it is no longer in force.

use super::{OpenReadEntry, QueryService, StaleDataError};
use crate::queries;
use actors_audit::logger::CommitError;
use domain_base::digest::Sha256Hex;
use domain_base::wording::excerpt;
use domain_ground::event::{SourceReadKind, SourceReadOutcome};
use domain_ground::freshness::age_s;
use domain_ground::query::{NormalizedRecord, QueryFreshness, RecordAnswer, RecordStatus};
use domain_ground::record::{ProvenanceRecord, RecordContent};
use domain_ground::run::split_record_id;
use domain_ground::source::{SourceAvailability, SourceRegistryEntry};
use domain_ground::timeline::{RecordVersion, ReleaseScope, StatementState, VersionEnd};
use jiff::{SignedDuration, Timestamp};
use oracled_store::StoreError;
use oracled_store::ground::statement::StoredStatement;
use oracled_store::ground::view::{FoundVersion, RecordStatements, SourceView};
use serde::Serialize;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Why a record is not returned.
#[derive(Debug, thiserror::Error)]
pub enum RecordReadError {
    /// No record has this id.
    #[error("no record has the id {0}")]
    Unknown(String),
    /// The source does not answer now.
    #[error("{0}")]
    Silent(String),
    /// The data is too old for the source's policy.
    #[error(transparent)]
    Stale(#[from] StaleDataError),
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The log does not accept the entry of the read.
    #[error(transparent)]
    Unlogged(#[from] CommitError),
}

/// The request for a record, for its digest.
#[derive(Serialize)]
struct RecordDigestInput<'r> {
    record_id: &'r str,
}

/// A record with its status.
struct LocatedRecord {
    view: Arc<SourceView>,
    found: FoundVersion,
    standing: RecordStatus,
    same_as: Option<(u32, u64)>,
    /// The run of the latest release that confirmed the version while it was in force. A later confirmation does not
    /// count.
    fresh_as: u32,
}

impl QueryService {
    /// A record with all its axes, if the source's freshness policy allows it.
    ///
    /// # Errors
    /// `Unknown`, `Silent`, `StaleDataError`; or the store cannot be read.
    pub async fn record(&self, record_id: &str) -> Result<RecordAnswer, RecordReadError> {
        let mut entry = self.open_entry(SourceReadKind::Record, None, &RecordDigestInput { record_id });
        let answered = self.read_record_answer(record_id, &mut entry).await;
        if let Ok(answer) = &answered {
            entry.note_record(&answer.source_version, Some(answer.freshness.policy.answer));
        }
        entry.set_error_outcome(answered.as_ref().err());
        self.close_entry(entry).await?;
        answered
    }

    async fn read_record_answer(
        &self,
        record_id: &str,
        entry: &mut OpenReadEntry,
    ) -> Result<RecordAnswer, RecordReadError> {
        let mut waited = false;
        loop {
            let answer = self.build_record_answer(record_id, entry)?;
            // a refresh cannot make a record fresher that is no longer valid
            waited |= !matches!(answer.standing, RecordStatus::Valid | RecordStatus::NotYetValid);
            let (oracle_id, freshness) = (answer.oracle_id.clone(), answer.freshness.policy.clone());
            if let Some(answer) =
                self.enforce_policy(&oracle_id, &freshness, Some(answer), &mut waited).await?
            {
                return Ok(answer);
            }
        }
    }

    fn build_record_answer(
        &self,
        record_id: &str,
        entry: &mut OpenReadEntry,
    ) -> Result<RecordAnswer, RecordReadError> {
        let LocatedRecord { view, found, standing, same_as, fresh_as } =
            self.locate_record(record_id, entry)?;
        let now = self.clock.now();
        let entry = &view.state.entry;
        let mut warnings = warnings_of(entry, now)?;
        let content = view.content(&found.statement)?;
        let pruned = content.is_none();
        let content = content.unwrap_or_default();
        let freshness = freshness_of(&view, (&found.version, fresh_as), &content, now);
        warnings.extend(freshness.policy.warnings.iter().cloned());
        let unit = |path: &String| Some((path.clone(), view.ontology.axis(path)?.unit.clone()?));
        let run = view.state.run(found.statement.time.run);
        Ok(RecordAnswer {
            oracle_id: entry.oracle_id().clone(),
            source_version: run.map(|run| run.release.version.clone()).unwrap_or_default(),
            record: NormalizedRecord {
                record_id: record_id.to_owned(),
                source_record_id: found.source_record_id(),
                units: content.axes.keys().filter_map(unit).collect(),
                axes: content.axes.into_iter().map(|(path, value)| (path, Some(value))).collect(),
                definitions: content.definitions,
                valid_from: found.version.valid_from,
                valid_until: found.version.valid_until,
                unconfirmed_by: view.unconfirmed_by(&found.version),
            },
            standing,
            pruned,
            oracle_tier: queries::tier_of(&view, &freshness.policy),
            freshness,
            warnings,
            superseded_by: found.superseded_by.and_then(|(run, position)| view.record_id(run, position)),
            same_as: same_as.and_then(|(run, position)| view.record_id(run, position)),
        })
    }

    /// The provenance of a record whose source answers.
    ///
    /// # Errors
    /// `Unknown`, `Silent`; or the store cannot be read.
    pub async fn provenance(&self, record_id: &str) -> Result<ProvenanceRecord, RecordReadError> {
        self.read_provenance(record_id, |view| warnings_of(&view.state.entry, self.clock.now()).map(drop))
            .await
    }

    /// The provenance of a record, whether its source answers or not. For administrators: provenance is kept as long as
    /// the source exists.
    ///
    /// # Errors
    /// `Unknown`; or the store cannot be read.
    pub async fn recorded_provenance(&self, record_id: &str) -> Result<ProvenanceRecord, RecordReadError> {
        self.read_provenance(record_id, |_| Ok(())).await
    }

    /// The provenance of a record, if `check` allows its source to answer. Writes the audit entry of the read.
    async fn read_provenance(
        &self,
        record_id: &str,
        check: impl FnOnce(&SourceView) -> Result<(), RecordReadError>,
    ) -> Result<ProvenanceRecord, RecordReadError> {
        let mut entry = self.open_entry(SourceReadKind::Provenance, None, &RecordDigestInput { record_id });
        let read = |entry| {
            let LocatedRecord { view, found, .. } = self.locate_record(record_id, entry)?;
            check(&view)?;
            Ok(view.provenance(&found)?)
        };
        let traced = read(&mut entry);
        if let Ok(provenance) = &traced {
            entry.note_record(&provenance.source_version, None);
        }
        entry.set_error_outcome(traced.as_ref().err());
        self.close_entry(entry).await?;
        traced
    }

    /// Finds a record, and sets its source in `entry`.
    fn locate_record(
        &self,
        record_id: &str,
        entry: &mut OpenReadEntry,
    ) -> Result<LocatedRecord, RecordReadError> {
        let unknown = || RecordReadError::Unknown(excerpt(record_id));
        let (digits, position) = split_record_id(record_id).ok_or_else(unknown)?;
        let run_ids = self.store.runs_with_prefix(digits)?;
        let run_id =
            run_ids.into_iter().next().and_then(|name| name.parse::<Sha256Hex>().ok()).ok_or_else(unknown)?;
        let (run, _) = self.store.run(&run_id)?.ok_or_else(unknown)?;
        entry.set_source(&run.oracle_id);
        let view = self.store.view(&run.oracle_id)?.ok_or_else(unknown)?;
        let completed = view.state.completed.iter().rev().find(|completed| completed.run_id == run_id);
        let number = completed.map(|completed| completed.release.run).ok_or_else(unknown)?;
        let record = view.record(number, position)?.ok_or_else(unknown)?;
        let index = record
            .statements
            .iter()
            .position(|statement| statement.time.run == number)
            .ok_or_else(unknown)?;
        find_record_standing(view, record, index, self.clock.now()).ok_or_else(unknown)
    }
}

/// The warnings of a source that answers.
fn warnings_of(entry: &SourceRegistryEntry, now: Timestamp) -> Result<Vec<String>, RecordReadError> {
    match entry.availability(now) {
        SourceAvailability::Answers => Ok(Vec::new()),
        SourceAvailability::AnswersWithWarning(warning) => Ok(vec![warning]),
        SourceAvailability::Silent(why) => Err(RecordReadError::Silent(why)),
    }
}

/// The freshness of a version with `content`, on all of its axes except identities; on the identities if it
/// has no other axes. A version that is no longer valid is as fresh as it was at its end. Its age counts from
/// the release of the run `fresh_as`.
fn freshness_of(
    view: &SourceView,
    (version, fresh_as): (&RecordVersion, u32),
    content: &RecordContent,
    now: Timestamp,
) -> QueryFreshness {
    let identity: BTreeSet<_> = view.ontology.identity().map(|axis| axis.axis.as_str()).collect();
    let visible_axes: BTreeSet<_> = content
        .axes
        .keys()
        .map(|path| view.ontology.axis(path).map_or(path.as_str(), |axis| axis.axis.as_str()))
        .collect();
    let others: Vec<_> = visible_axes.difference(&identity).copied().collect();
    let axes = if others.is_empty() { visible_axes.into_iter().collect() } else { others };
    let past = version.valid_until.filter(|until| *until < now);
    let as_of = view.state.run(fresh_as).map(|run| run.release.as_of());
    let scope =
        ReleaseScope { known_at: None, released_by: Some(past.unwrap_or_else(|| view.state.present(now))) };
    let policy = queries::evaluate_freshness(view, &axes, as_of, past, now, scope);
    QueryFreshness { data_as_of: as_of, staleness_seconds: as_of.map(|as_of| age_s(as_of, now)), policy }
}

/// The status of the statement at `index` among all statements of its record.
fn find_record_standing(
    view: Arc<SourceView>,
    record: RecordStatements,
    index: usize,
    now: Timestamp,
) -> Option<LocatedRecord> {
    let versions: Vec<FoundVersion> = SourceView::versions(&record, &view.known).collect();
    let times: Vec<_> = record.statements.iter().map(|statement| statement.time).collect();
    let became = view.known.statement_state(&times, index)?;
    let record_position = |statement: &StoredStatement| (statement.time.run, statement.position);
    let statement = record.statement(index)?;
    let time = statement.time;
    let content = time.content?;
    let released_at = || view.state.run(time.run).map_or(Timestamp::MIN, |run| run.release.released_at);
    let valid_from = time.valid_from.unwrap_or_else(released_at);
    // an empty interval: it ends where it begins
    let empty = |ended_by: VersionEnd| RecordVersion {
        statement: index,
        content,
        valid_from,
        valid_until: Some(valid_from),
        ended_by,
        last_seen: time.run,
        unconfirmed_by: None,
    };
    let holds_then = || versions.iter().find(|found| found.version.is_valid_at(valid_from));
    let of = |version: RecordVersion| versions.iter().find(|found| found.version == version);
    let (version, standing, superseded_by, same_as) = match became {
        StatementState::Version(version) => {
            (version, standing_of_version(&version, now), of(version)?.superseded_by, None)
        }
        StatementState::Same(version) => {
            let same = of(version)?;
            (
                version,
                standing_of_version(&version, now),
                same.superseded_by,
                Some(record_position(&same.statement)),
            )
        }
        StatementState::Corrected(by) => {
            let by = record.statements.get(by).map(record_position);
            (empty(VersionEnd::Open), RecordStatus::Superseded, by, None)
        }
        StatementState::Ended(why) => {
            let by = holds_then().map(|found| record_position(&found.statement));
            (empty(why), standing_of_end(why), by, None)
        }
        StatementState::Undone => {
            let by = holds_then().map(|found| record_position(&found.statement));
            (empty(VersionEnd::Open), RecordStatus::Undone, by, None)
        }
        StatementState::Replaced => {
            let by = holds_then().map(|found| record_position(&found.statement));
            (empty(VersionEnd::Open), RecordStatus::Replaced, by, None)
        }
    };
    let last_held = version.valid_until.map_or(now, |until| {
        until.saturating_sub(SignedDuration::from_nanos(1)).unwrap_or(Timestamp::MIN).min(now)
    });
    let scope = ReleaseScope { known_at: None, released_by: Some(last_held) };
    let then = view.knowledge(scope).valid_at(record.times(), last_held);
    let fresh_as =
        then.filter(|then| then.content == version.content).map_or(time.run, |then| then.last_seen);
    let found =
        FoundVersion { key: record.key, latest: statement.clone(), statement, version, superseded_by };
    Some(LocatedRecord { view, found, standing, same_as, fresh_as })
}

fn standing_of_version(version: &RecordVersion, now: Timestamp) -> RecordStatus {
    if now < version.valid_from {
        return RecordStatus::NotYetValid;
    }
    if version.is_valid_at(now) {
        return RecordStatus::Valid;
    }
    standing_of_end(version.ended_by)
}

const fn standing_of_end(by: VersionEnd) -> RecordStatus {
    match by {
        VersionEnd::Superseded(_) => RecordStatus::Superseded,
        VersionEnd::Withdrawn(_) => RecordStatus::Withdrawn,
        VersionEnd::Expired | VersionEnd::Open => RecordStatus::Expired,
    }
}

impl From<&RecordReadError> for SourceReadOutcome {
    fn from(error: &RecordReadError) -> Self {
        match error {
            RecordReadError::Unknown(_) => Self::RecordUnknown,
            RecordReadError::Silent(_) => Self::SourceSilent,
            RecordReadError::Stale(_) => Self::SourceStale,
            RecordReadError::Store(_) | RecordReadError::Unlogged(_) => Self::Failed,
        }
    }
}
