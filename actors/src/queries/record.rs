//! One record by its id, whatever has become of it since.

use super::Queries;
use domain::Sha256Hex;
use domain::ground::id::SourceId;
use domain::ground::provenance::ProvenanceRecord;
use domain::ground::query::NormalizedRecord;
use domain::ground::run::split_record_id;
use domain::ground::source::Standing;
use domain::ground::timeline::{End, Version};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use store::StoreError;
use store::ground::view::{Found, Record, SourceView};

/// A record by its id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordAnswer {
    /// Whose it is.
    pub oracle_id: SourceId,
    /// Of which version of the source.
    pub source_version: String,
    /// What it says, and when it is valid.
    #[serde(flatten)]
    pub record: NormalizedRecord,
    /// Where it stands.
    pub standing: RecordStanding,
    /// Whether what it said was pruned, so that it has no axes here.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pruned: bool,
    /// The record that has taken its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub superseded_by: Option<String>,
    /// The record that said the same before it, and stands for both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub same_as: Option<String>,
}

/// Where a record stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordStanding {
    /// It is valid now.
    Valid,
    /// It will be.
    NotYetValid,
    /// Another one has taken its place.
    Superseded,
    /// Its source holds it no more.
    Withdrawn,
    /// It was valid until a time that it names itself.
    Expired,
    /// Its version of the source was read anew, and it does not count any more.
    Replaced,
}

/// Why there is no record.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// There is none of this id.
    #[error("no record has the id {0}")]
    Unknown(String),
    /// Its source does not answer.
    #[error("{0}")]
    Silent(String),
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A record with where it stands.
struct Stands {
    view: Arc<SourceView>,
    found: Found,
    standing: RecordStanding,
    same_as: Option<(u32, u64)>,
}

impl Queries {
    /// A record with all its axes.
    ///
    /// # Errors
    /// `Unknown`, `Silent`; where the store cannot be read.
    pub fn record(&self, record_id: &str) -> Result<RecordAnswer, RecordError> {
        let Stands { view, found, standing, same_as } = self.stands(record_id)?;
        if let Standing::Silent(why) = view.state.entry.standing(self.clock.now()) {
            return Err(RecordError::Silent(why));
        }
        let content = view.content(&found.statement)?;
        let pruned = content.is_none();
        let content = content.unwrap_or_default();
        let unit = |path: &String| Some((path.clone(), view.ontology.axis(path)?.unit.clone()?));
        let run = view.state.run(found.statement.time.run);
        Ok(RecordAnswer {
            oracle_id: view.state.entry.oracle_id().clone(),
            source_version: run.map(|run| run.release.version.clone()).unwrap_or_default(),
            record: NormalizedRecord {
                record_id: record_id.to_owned(),
                source_record_id: found.source_record_id(),
                units: content.axes.keys().filter_map(unit).collect(),
                axes: content.axes,
                definitions: content.definitions,
                valid_from: found.version.valid_from,
                valid_until: found.version.valid_until,
            },
            standing,
            pruned,
            superseded_by: found.superseded_by.and_then(|(run, position)| view.record_id(run, position)),
            same_as: same_as.and_then(|(run, position)| view.record_id(run, position)),
        })
    }

    /// Where a record comes from.
    ///
    /// # Errors
    /// `Unknown`; where the store cannot be read.
    pub fn provenance(&self, record_id: &str) -> Result<ProvenanceRecord, RecordError> {
        let Stands { view, found, .. } = self.stands(record_id)?;
        Ok(view.provenance(&found)?)
    }

    fn stands(&self, record_id: &str) -> Result<Stands, RecordError> {
        let unknown = || RecordError::Unknown(record_id.chars().take(80).collect());
        let (digits, position) = split_record_id(record_id).ok_or_else(unknown)?;
        let run_ids = self.store.runs_with_prefix(digits)?;
        let run_id =
            run_ids.into_iter().next().and_then(|name| name.parse::<Sha256Hex>().ok()).ok_or_else(unknown)?;
        let (run, _) = self.store.run(&run_id)?.ok_or_else(unknown)?;
        let view = self.store.view(&run.oracle_id)?.ok_or_else(unknown)?;
        let completed = view.state.completed.iter().find(|completed| completed.run_id == run_id);
        let number = completed.map(|completed| completed.release.run).ok_or_else(unknown)?;
        let record = view.record(number, position)?.ok_or_else(unknown)?;
        let place = record
            .statements
            .iter()
            .position(|statement| statement.time.run == number)
            .ok_or_else(unknown)?;
        Ok(stand(view, record, place, self.clock.now()))
    }
}

/// Where the statement at `place` stands among all that is said of its record.
fn stand(view: Arc<SourceView>, record: Record, place: usize, now: Timestamp) -> Stands {
    let versions: Vec<Found> = SourceView::versions(&record, &view.known).collect();
    let mut statements = record.statements;
    let statement = statements.swap_remove(place);
    let run = statement.time.run;
    if let Some(found) = versions.iter().find(|found| found.statement.time.run == run).cloned() {
        let standing = standing(&found.version, now);
        return Stands { view, found, standing, same_as: None };
    }
    let released_at = view.state.run(run).map_or(Timestamp::MIN, |completed| completed.release.released_at);
    let valid_from = statement.time.valid_from.unwrap_or(released_at);
    let in_its_place = versions.iter().find(|found| found.version.holds_at(valid_from));
    let told = |found: &Found| (found.statement.time.run, found.statement.position);
    if let Some(same) = in_its_place.filter(|found| found.version.content == statement.time.content)
        && view.known.counts(run)
    {
        let standing = standing(&same.version, now);
        let (version, superseded_by, same_as) = (same.version, same.superseded_by, Some(told(same)));
        return Stands {
            view,
            found: Found { key: record.key, statement, version, superseded_by },
            standing,
            same_as,
        };
    }
    // it has no interval: what counts in its stead holds from the same time on
    let version = Version {
        statement: place,
        content: statement.time.content,
        valid_from,
        valid_until: Some(valid_from),
        ended_by: End::Open,
        last_seen: run,
    };
    let standing = if view.known.counts(run) { RecordStanding::Superseded } else { RecordStanding::Replaced };
    let superseded_by = in_its_place.map(told);
    Stands {
        view,
        found: Found { key: record.key, statement, version, superseded_by },
        standing,
        same_as: None,
    }
}

fn standing(version: &Version, now: Timestamp) -> RecordStanding {
    if now < version.valid_from {
        return RecordStanding::NotYetValid;
    }
    if version.holds_at(now) {
        return RecordStanding::Valid;
    }
    match version.ended_by {
        End::Superseded(_) => RecordStanding::Superseded,
        End::Withdrawn(_) => RecordStanding::Withdrawn,
        End::Expired | End::Open => RecordStanding::Expired,
    }
}
