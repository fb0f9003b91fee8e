//! The feed of changes: records that became valid, or were superseded or withdrawn, in the order in which that became
//! known.

use super::{QueryError, QueryService};
use domain_base::digest::Sha256Hex;
use domain_base::wording::ParseTextError;
use domain_ground::event::SourceReadKind;
use domain_ground::id::SourceId;
use domain_ground::source::SourceAvailability;
use domain_ground::timeline::VersionChangeKind;
use jiff::Timestamp;
use oracled_store::Store;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use tokio::task::spawn_blocking;

/// A position in the feed, from an earlier answer.
///
/// It is after one change of the run that became visible with a log entry, or after all changes of that run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FeedPosition {
    /// The number of the log entry.
    seq: u64,
    /// The number of the change within the run; `None` after all changes of the run.
    ordinal: Option<u64>,
}

/// A change of one version of a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct FeedChange {
    /// The kind of the change.
    pub kind: VersionChangeKind,
    /// The source of the record.
    pub oracle_id: SourceId,
    /// The run that caused the change.
    pub run_id: Sha256Hex,
    /// The version of the source.
    pub source_version: String,
    /// When the change became known.
    pub known_at: Timestamp,
    /// The id of the record.
    pub record_id: String,
    /// The source's own id of the record.
    pub source_record_id: String,
    /// The start of the interval in which it is valid after the change; null if it is no longer valid at any time.
    pub valid_from: Option<Timestamp>,
    /// The end of that interval; null if it is open.
    pub valid_until: Option<Timestamp>,
    /// The id of the record that follows this one or, if `valid_from` is null, is valid in its place.
    pub superseded_by: Option<String>,
}

/// A page of changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ChangesPage {
    /// The changes, in the order in which they became known.
    pub changes: Vec<FeedChange>,
    /// The position for the next request; null if nothing has ever changed.
    #[schema(value_type = Option<String>)]
    pub next: Option<FeedPosition>,
    /// Whether there are more changes now.
    pub more: bool,
    /// Sources that do not answer, whose changes are left out. Once such a source answers, request its changes by
    /// `oracle_id`.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub withheld: BTreeSet<SourceId>,
}

/// The request for changes, for its digest.
#[derive(Serialize)]
struct ChangesDigestInput<'r> {
    since: Option<FeedPosition>,
    oracle_id: Option<&'r SourceId>,
    limit: usize,
}

impl QueryService {
    /// The first `limit` changes after `since`, of all sources that answer or of one.
    ///
    /// # Errors
    /// `Position` if `since` is not the number of a log entry; `SourceUnknown`, `Silent`; or the store cannot be read.
    pub async fn changes(
        &self,
        since: Option<FeedPosition>,
        oracle_id: Option<SourceId>,
        limit: usize,
    ) -> Result<ChangesPage, QueryError> {
        let requested = ChangesDigestInput { since, oracle_id: oracle_id.as_ref(), limit };
        let mut entry = self.open_entry(SourceReadKind::Changes, oracle_id.clone(), &requested);
        let (store, now) = (self.store.clone(), self.clock.now());
        let read = spawn_blocking(move || page(&store, now, since, oracle_id.as_ref(), limit));
        let read = read.await.unwrap_or_else(|error| Err(QueryError::Reading(error.to_string())));
        if let Ok(page) = &read {
            entry.note_changes(page);
        }
        entry.set_error_outcome(read.as_ref().err());
        self.close_entry(entry).await?;
        read
    }
}

fn page(
    store: &Store,
    now: Timestamp,
    since: Option<FeedPosition>,
    oracle_id: Option<&SourceId>,
    limit: usize,
) -> Result<ChangesPage, QueryError> {
    let entries = 1..=store.last_seq();
    if let Some(since) = since.filter(|since| !entries.contains(&since.seq)) {
        return Err(FeedPosition::unknown(&since.to_string()).into());
    }
    if let Some(oracle_id) = oracle_id {
        let source = store.source(oracle_id)?;
        let (source, _) = source.ok_or_else(|| QueryError::SourceUnknown(oracle_id.clone()))?;
        if let SourceAvailability::Silent(why) = source.entry.availability(now) {
            return Err(QueryError::Silent(why));
        }
    }
    let mut page = ChangesPage { changes: Vec::new(), next: since, more: false, withheld: BTreeSet::new() };
    for (seq, run) in store.completed_since(since.map_or(0, |since| since.seq))? {
        if oracle_id.is_some_and(|requested| *requested != run.oracle_id) {
            continue;
        }
        let after = since.filter(|since| since.seq == seq);
        if after.is_some_and(|after| after.ordinal.is_none()) {
            continue;
        }
        let Some((source, _)) = store.source(&run.oracle_id)? else { continue };
        if let SourceAvailability::Silent(_) = source.entry.availability(now) {
            page.withheld.insert(run.oracle_id);
            continue;
        }
        let Some(view) = store.view(&run.oracle_id)? else { continue };
        let left = limit - page.changes.len();
        // one more shows whether there are more
        let entries = view.changes(run.number, after.and_then(|after| after.ordinal), left + 1)?;
        let more = entries.len() > left;
        for (ordinal, entry) in entries.into_iter().take(left) {
            let id = |(run, position): (u32, u64)| view.record_id(run, position);
            page.changes.push(FeedChange {
                kind: entry.kind,
                oracle_id: run.oracle_id.clone(),
                run_id: run.run_id.clone(),
                source_version: run.input.version.clone(),
                known_at: run.ended_at.unwrap_or(run.started_at),
                record_id: id((entry.run, entry.position)).unwrap_or_default(),
                source_record_id: entry.source_record_id,
                valid_from: entry.valid_from,
                valid_until: entry.valid_until,
                superseded_by: entry.superseded_by.and_then(id),
            });
            page.next = Some(FeedPosition { seq, ordinal: Some(ordinal) });
        }
        if more {
            page.more = true;
            return Ok(page);
        }
        page.next = Some(FeedPosition { seq, ordinal: None });
    }
    Ok(page)
}

impl FeedPosition {
    fn unknown(text: &str) -> ParseTextError {
        ParseTextError::new("a position in the feed", text, "the `next` of an earlier answer")
    }
}

impl FromStr for FeedPosition {
    type Err = ParseTextError;

    fn from_str(text: &str) -> Result<Self, ParseTextError> {
        let number = |digits: &str| digits.parse().map_err(|_| Self::unknown(text));
        match text.split_once('-') {
            Some((seq, ordinal)) => Ok(Self { seq: number(seq)?, ordinal: Some(number(ordinal)?) }),
            None => Ok(Self { seq: number(text)?, ordinal: None }),
        }
    }
}

impl TryFrom<String> for FeedPosition {
    type Error = ParseTextError;

    fn try_from(text: String) -> Result<Self, ParseTextError> {
        text.parse()
    }
}

impl From<FeedPosition> for String {
    fn from(position: FeedPosition) -> Self {
        position.to_string()
    }
}

impl fmt::Display for FeedPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ordinal {
            Some(ordinal) => write!(f, "{}-{ordinal}", self.seq),
            None => write!(f, "{}", self.seq),
        }
    }
}
