//! Our side: the store that the daemon filled, queried without a daemon.

use super::{BenchQuery, ReturnedFact, SOURCE};
use crate::standalone_journal::{CACHE_BYTES, FACTS_CACHE_BYTES};
use domain_base::caller::RequestCaller;
use domain_base::event::AuditEvent;
use domain_ground::id::SourceId;
use domain_ground::query::{QueryRequest, ValidatedQuery};
use domain_ground::record::{RecordContent, RecordIdentity};
use domain_ground::value::{AxisValue, TypedValue};
use jiff::Timestamp;
use oracled_store::ground::query::{ScanBudget, ScanError};
use oracled_store::ground::view::{FoundVersion, SourceView};
use oracled_store::{Journal, JournalRecord, RecordCallers, Store, StoreError, StoreOptions};
use serde_json::json;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// The store, queried through the library.
pub(crate) struct LibraryStore {
    store: Store,
    oracle_id: SourceId,
    /// Keeps the store open.
    journal: Journal,
}

impl LibraryStore {
    /// Opens the store in `dir`. No daemon may have it open.
    pub(crate) fn open(dir: &Path) -> io::Result<Self> {
        let (cache_bytes, facts_cache_bytes) = (CACHE_BYTES, FACTS_CACHE_BYTES);
        let options = StoreOptions { dir: dir.to_owned(), cache_bytes, facts_cache_bytes, min_free_bytes: 0 };
        let (journal, store) = Store::open(options).map_err(io::Error::other)?;
        Ok(Self { store, oracle_id: SOURCE.parse().expect("a valid id"), journal })
    }

    fn view(&self) -> Result<Arc<SourceView>, StoreError> {
        Ok(self.store.view(&self.oracle_id)?.expect("the source is registered"))
    }

    /// Commits the entries of queries as one group.
    pub(crate) fn commit(
        &mut self,
        events: Vec<AuditEvent>,
        callers: Vec<Option<Arc<RequestCaller>>>,
    ) -> io::Result<()> {
        let record =
            JournalRecord { events, callers: RecordCallers::Each(callers), ..JournalRecord::default() };
        let outcomes = self.journal.commit(&[record]).map_err(io::Error::other)?;
        outcomes.into_iter().try_for_each(|outcome| outcome.map(drop)).map_err(io::Error::other)
    }

    /// The facts that answer `question`, ordered by area and year.
    pub(crate) fn query(&self, question: &BenchQuery<'_>, at: i64) -> io::Result<Vec<ReturnedFact>> {
        self.answer(question, at).map_err(io::Error::other)
    }

    fn answer(&self, question: &BenchQuery<'_>, at: i64) -> Result<Vec<ReturnedFact>, StoreError> {
        let (view, at) = (self.view()?, Timestamp::from_second(at).expect("a valid time"));
        let mut after = None;
        let filters = match question {
            BenchQuery::Lookup { area, year } => return lookup(&view, area, *year, at),
            BenchQuery::Years(area) => json!([{"axis": "area", "operator": "eq", "value": area}]),
            BenchQuery::Named(name) => json!([{"axis": "area_name", "operator": "eq", "value": name}]),
            BenchQuery::FromOn(population) => {
                json!([{"axis": "population", "operator": "gte", "value": population}])
            }
            BenchQuery::Page(last) => {
                after = last.map(|last| {
                    let id = format!("{}/{}", last.area, last.year);
                    identity(&last.area, last.year).record_key(&id)
                });
                json!([])
            }
        };
        let limit = question.limit();
        let request = json!({"axes_requested": ["population"], "filters": filters, "max_results": limit});
        let request: QueryRequest = serde_json::from_value(request).expect("a valid request");
        let query =
            ValidatedQuery::new(&request, &view.ontology, &view.state.entry.registration.axes_provided);
        let query = query.expect("a valid query");
        let answered = view.query(&query, at, None, after.as_deref(), ScanBudget::UNLIMITED).map_err(
            |error| match error {
                ScanError::Store(error) => error,
                other => StoreError::Unavailable { cause: other.to_string() },
            },
        )?;
        Ok(answered.found.into_iter().map(|hit| returned_fact(&hit.found, hit.content)).collect())
    }
}

/// A lookup by the key of an identity, as the routes do it.
fn lookup(view: &SourceView, area: &str, year: u16, at: Timestamp) -> Result<Vec<ReturnedFact>, StoreError> {
    let mut all = Vec::new();
    for found in view.lookup(&identity(area, year).key(), &view.known, at)? {
        let found = found?;
        if let Some(content) = view.content(&found.statement)? {
            all.push(returned_fact(&found, content));
        }
    }
    Ok(all)
}

fn identity(area: &str, year: u16) -> RecordIdentity {
    RecordIdentity::new(vec![TypedValue::Text(area.to_owned()), TypedValue::Number(i64::from(year).into())])
}

fn returned_fact(found: &FoundVersion, mut content: RecordContent) -> ReturnedFact {
    let mut text = |axis: &str| match content.axes.remove(axis) {
        Some(AxisValue::Text(text)) => text,
        _ => String::new(),
    };
    let FoundVersion { statement, version, .. } = found;
    ReturnedFact {
        area: text("area"),
        year: text("year").parse().unwrap_or_default(),
        name: text("area_name"),
        population: text("population").parse().unwrap_or_default(),
        valid_from: version.valid_from.as_second(),
        run: statement.time.run,
        position: i64::try_from(statement.position).unwrap_or_default(),
        raw_hash: statement.raw_hash,
    }
}
