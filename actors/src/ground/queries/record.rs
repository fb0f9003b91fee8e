//! Reads one record by its id, even if it is no longer in force.

use super::{OpenEntry, Queries, Stale, freshness};
use crate::audit::logger::CommitError;
use jiff::{SignedDuration, Timestamp};
use oracled_domain::Sha256Hex;
use oracled_domain::audit::event::{ReadKind, ReadOutcome};
use oracled_domain::base::wording::excerpt;
use oracled_domain::ground::freshness::age_s;
use oracled_domain::ground::provenance::ProvenanceRecord;
use oracled_domain::ground::query::answer::RecordAnswer;
use oracled_domain::ground::query::answer::RecordStanding;
use oracled_domain::ground::query::{NormalizedRecord, QueryFreshness};
use oracled_domain::ground::record::Content;
use oracled_domain::ground::run::split_record_id;
use oracled_domain::ground::source::{SourceRegistryEntry, Standing};
use oracled_domain::ground::timeline::{Became, End, Scope, Version};
use oracled_store::StoreError;
use oracled_store::ground::statement::StoredStatement;
use oracled_store::ground::view::{Found, Record, SourceView};
use serde::Serialize;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Why a record is not returned.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// No record has this id.
    #[error("no record has the id {0}")]
    Unknown(String),
    /// The source does not answer now.
    #[error("{0}")]
    Silent(String),
    /// The data is too old for the source's policy.
    #[error(transparent)]
    Stale(#[from] Stale),
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The log does not accept the entry of the read.
    #[error(transparent)]
    Unlogged(#[from] CommitError),
}

/// The request for a record, for its digest.
#[derive(Serialize)]
struct Requested<'r> {
    record_id: &'r str,
}

/// A record with its standing.
struct Stands {
    view: Arc<SourceView>,
    found: Found,
    standing: RecordStanding,
    same_as: Option<(u32, u64)>,
    /// The run of the latest release that confirmed the version while it was in force. A later confirmation does not
    /// count.
    fresh_as: u32,
}

impl Queries {
    /// A record with all its axes, if the source's freshness policy allows it.
    ///
    /// # Errors
    /// `Unknown`, `Silent`, `Stale`; or the store cannot be read.
    pub async fn record(&self, record_id: &str) -> Result<RecordAnswer, RecordError> {
        let mut entry = self.open_entry(ReadKind::Record, None, &Requested { record_id });
        let answered = self.answered(record_id, &mut entry).await;
        if let Ok(answer) = &answered {
            entry.read_record(&answer.source_version, Some(answer.freshness.policy.answer));
        }
        entry.ended(answered.as_ref().err());
        self.close_entry(entry).await?;
        answered
    }

    async fn answered(&self, record_id: &str, entry: &mut OpenEntry) -> Result<RecordAnswer, RecordError> {
        let mut waited = false;
        loop {
            let answer = self.answer_of(record_id, entry)?;
            // a refresh cannot make a record fresher that is no longer valid
            waited |= !matches!(answer.standing, RecordStanding::Valid | RecordStanding::NotYetValid);
            let (oracle_id, freshness) = (answer.oracle_id.clone(), answer.freshness.policy.clone());
            if let Some(answer) = self.passed(&oracle_id, &freshness, Some(answer), &mut waited).await? {
                return Ok(answer);
            }
        }
    }

    fn answer_of(&self, record_id: &str, entry: &mut OpenEntry) -> Result<RecordAnswer, RecordError> {
        let Stands { view, found, standing, same_as, fresh_as } = self.stands(record_id, entry)?;
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
            oracle_tier: freshness::tier_of(&view, &freshness.policy),
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
    pub async fn provenance(&self, record_id: &str) -> Result<ProvenanceRecord, RecordError> {
        self.traced(record_id, |view| warnings_of(&view.state.entry, self.clock.now()).map(drop)).await
    }

    /// The provenance of a record, whether its source answers or not. For administrators: provenance is kept as long as
    /// the source exists.
    ///
    /// # Errors
    /// `Unknown`; or the store cannot be read.
    pub async fn recorded_provenance(&self, record_id: &str) -> Result<ProvenanceRecord, RecordError> {
        self.traced(record_id, |_| Ok(())).await
    }

    /// The provenance of a record, if `check` allows its source to answer. Writes the audit entry of the read.
    async fn traced(
        &self,
        record_id: &str,
        check: impl FnOnce(&SourceView) -> Result<(), RecordError>,
    ) -> Result<ProvenanceRecord, RecordError> {
        let mut entry = self.open_entry(ReadKind::Provenance, None, &Requested { record_id });
        let read = |entry| {
            let Stands { view, found, .. } = self.stands(record_id, entry)?;
            check(&view)?;
            Ok(view.provenance(&found)?)
        };
        let traced = read(&mut entry);
        if let Ok(provenance) = &traced {
            entry.read_record(&provenance.source_version, None);
        }
        entry.ended(traced.as_ref().err());
        self.close_entry(entry).await?;
        traced
    }

    /// Finds a record, and sets its source in `entry`.
    fn stands(&self, record_id: &str, entry: &mut OpenEntry) -> Result<Stands, RecordError> {
        let unknown = || RecordError::Unknown(excerpt(record_id));
        let (digits, position) = split_record_id(record_id).ok_or_else(unknown)?;
        let run_ids = self.store.runs_with_prefix(digits)?;
        let run_id =
            run_ids.into_iter().next().and_then(|name| name.parse::<Sha256Hex>().ok()).ok_or_else(unknown)?;
        let (run, _) = self.store.run(&run_id)?.ok_or_else(unknown)?;
        entry.reads_source(&run.oracle_id);
        let view = self.store.view(&run.oracle_id)?.ok_or_else(unknown)?;
        let completed = view.state.completed.iter().rev().find(|completed| completed.run_id == run_id);
        let number = completed.map(|completed| completed.release.run).ok_or_else(unknown)?;
        let record = view.record(number, position)?.ok_or_else(unknown)?;
        let place = record
            .statements
            .iter()
            .position(|statement| statement.time.run == number)
            .ok_or_else(unknown)?;
        stand(view, record, place, self.clock.now()).ok_or_else(unknown)
    }
}

/// The warnings of a source that answers.
fn warnings_of(entry: &SourceRegistryEntry, now: Timestamp) -> Result<Vec<String>, RecordError> {
    match entry.standing(now) {
        Standing::Answers => Ok(Vec::new()),
        Standing::AnswersWithWarning(warning) => Ok(vec![warning]),
        Standing::Silent(why) => Err(RecordError::Silent(why)),
    }
}

/// The freshness of a version with `content`, on all of its axes except identities; on the identities if it has no other
/// axes. A version that is no longer valid is as fresh as it was at its end. Its age counts from the release of the run
/// `fresh_as`.
fn freshness_of(
    view: &SourceView,
    (version, fresh_as): (&Version, u32),
    content: &Content,
    now: Timestamp,
) -> QueryFreshness {
    let identity: BTreeSet<_> = view.ontology.identity().map(|axis| axis.axis.as_str()).collect();
    let said: BTreeSet<_> = content
        .axes
        .keys()
        .map(|path| view.ontology.axis(path).map_or(path.as_str(), |axis| axis.axis.as_str()))
        .collect();
    let others: Vec<_> = said.difference(&identity).copied().collect();
    let axes = if others.is_empty() { said.into_iter().collect() } else { others };
    let past = version.valid_until.filter(|until| *until < now);
    let as_of = view.state.run(fresh_as).map(|run| run.release.as_of());
    let scope = Scope { known_at: None, released_by: Some(past.unwrap_or_else(|| view.state.present(now))) };
    let policy = freshness::of(view, &axes, as_of, past, now, scope);
    QueryFreshness { data_as_of: as_of, staleness_seconds: as_of.map(|as_of| age_s(as_of, now)), policy }
}

/// The standing of the statement at `place` among all statements of its record.
fn stand(view: Arc<SourceView>, record: Record, place: usize, now: Timestamp) -> Option<Stands> {
    let versions: Vec<Found> = SourceView::versions(&record, &view.known).collect();
    let times: Vec<_> = record.statements.iter().map(|statement| statement.time).collect();
    let became = view.known.became(&times, place)?;
    let told = |statement: &StoredStatement| (statement.time.run, statement.position);
    let statement = record.statements.get(place)?.clone();
    let time = statement.time;
    let content = time.content?;
    let released_at = || view.state.run(time.run).map_or(Timestamp::MIN, |run| run.release.released_at);
    let valid_from = time.valid_from.unwrap_or_else(released_at);
    // an empty interval: it ends where it begins
    let empty = |ended_by: End| Version {
        statement: place,
        content,
        valid_from,
        valid_until: Some(valid_from),
        ended_by,
        last_seen: time.run,
        unconfirmed_by: None,
    };
    let holds_then = || versions.iter().find(|found| found.version.holds_at(valid_from));
    let of = |version: Version| versions.iter().find(|found| found.version == version);
    let (version, standing, superseded_by, same_as) = match became {
        Became::Version(version) => (version, standing(&version, now), of(version)?.superseded_by, None),
        Became::Same(version) => {
            let same = of(version)?;
            (version, standing(&version, now), same.superseded_by, Some(told(&same.statement)))
        }
        Became::Corrected(by) => {
            let by = record.statements.get(by).map(told);
            (empty(End::Open), RecordStanding::Superseded, by, None)
        }
        Became::Ended(why) => {
            let by = holds_then().map(|found| told(&found.statement));
            (empty(why), ended(why), by, None)
        }
        Became::Undone => {
            let by = holds_then().map(|found| told(&found.statement));
            (empty(End::Open), RecordStanding::Undone, by, None)
        }
        Became::Replaced => {
            let by = holds_then().map(|found| told(&found.statement));
            (empty(End::Open), RecordStanding::Replaced, by, None)
        }
    };
    let last_held = version.valid_until.map_or(now, |until| {
        until.saturating_sub(SignedDuration::from_nanos(1)).unwrap_or(Timestamp::MIN).min(now)
    });
    let scope = Scope { known_at: None, released_by: Some(last_held) };
    let then = view.knowledge(scope).valid_at(record.times(), last_held);
    let fresh_as =
        then.filter(|then| then.content == version.content).map_or(time.run, |then| then.last_seen);
    let found = Found { key: record.key, latest: statement.clone(), statement, version, superseded_by };
    Some(Stands { view, found, standing, same_as, fresh_as })
}

fn standing(version: &Version, now: Timestamp) -> RecordStanding {
    if now < version.valid_from {
        return RecordStanding::NotYetValid;
    }
    if version.holds_at(now) {
        return RecordStanding::Valid;
    }
    ended(version.ended_by)
}

const fn ended(by: End) -> RecordStanding {
    match by {
        End::Superseded(_) => RecordStanding::Superseded,
        End::Withdrawn(_) => RecordStanding::Withdrawn,
        End::Expired | End::Open => RecordStanding::Expired,
    }
}

impl From<&RecordError> for ReadOutcome {
    fn from(error: &RecordError) -> Self {
        match error {
            RecordError::Unknown(_) => Self::RecordUnknown,
            RecordError::Silent(_) => Self::SourceSilent,
            RecordError::Stale(_) => Self::SourceStale,
            RecordError::Store(_) | RecordError::Unlogged(_) => Self::Failed,
        }
    }
}
