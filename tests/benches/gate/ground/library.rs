//! Our side: the store that the daemon filled, queried without a daemon.

use super::{Question, SOURCE, Told};
use crate::alone::{CACHE_BYTES, FACTS_CACHE_BYTES};
use jiff::Timestamp;
use oracled_domain::ground::id::SourceId;
use oracled_domain::ground::query::{Query, QueryRequest};
use oracled_domain::ground::record::{Content, Identity};
use oracled_domain::ground::value::{Typed, Value};
use oracled_domain::{Caller, Event};
use oracled_store::ground::query::{ScanBudget, ScanError};
use oracled_store::ground::view::{Found, SourceView};
use oracled_store::{Callers, Journal, Options, Record, Store, StoreError};
use serde_json::json;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// The store, queried through the library.
pub(crate) struct Library {
    store: Store,
    oracle_id: SourceId,
    /// Keeps the store open.
    journal: Journal,
}

impl Library {
    /// Opens the store in `dir`. No daemon may have it open.
    pub(crate) fn open(dir: &Path) -> io::Result<Self> {
        let (cache_bytes, facts_cache_bytes) = (CACHE_BYTES, FACTS_CACHE_BYTES);
        let options = Options { dir: dir.to_owned(), cache_bytes, facts_cache_bytes, min_free_bytes: 0 };
        let (journal, store) = Journal::open(options).map_err(io::Error::other)?;
        Ok(Self { store, oracle_id: SOURCE.parse().expect("it is an id"), journal })
    }

    fn view(&self) -> Result<Arc<SourceView>, StoreError> {
        Ok(self.store.view(&self.oracle_id)?.expect("the source is registered"))
    }

    /// Commits the entries of queries as one group.
    pub(crate) fn commit(&mut self, events: Vec<Event>, callers: Vec<Option<Arc<Caller>>>) -> io::Result<()> {
        let record = Record { events, callers: Callers::Each(callers), ..Record::default() };
        let outcomes = self.journal.commit(&[record]).map_err(io::Error::other)?;
        outcomes.into_iter().try_for_each(|outcome| outcome.map(drop)).map_err(io::Error::other)
    }

    /// The facts that answer `question`, ordered by area and year.
    pub(crate) fn ask(&self, question: &Question<'_>, at: i64) -> io::Result<Vec<Told>> {
        self.answer(question, at).map_err(io::Error::other)
    }

    fn answer(&self, question: &Question<'_>, at: i64) -> Result<Vec<Told>, StoreError> {
        let (view, at) = (self.view()?, Timestamp::from_second(at).expect("it is a time"));
        let mut after = None;
        let filters = match question {
            Question::Lookup { area, year } => return lookup(&view, area, *year, at),
            Question::Years(area) => json!([{"axis": "area", "operator": "eq", "value": area}]),
            Question::Named(name) => json!([{"axis": "area_name", "operator": "eq", "value": name}]),
            Question::FromOn(population) => {
                json!([{"axis": "population", "operator": "gte", "value": population}])
            }
            Question::Page(last) => {
                after = last.map(|last| {
                    let id = format!("{}/{}", last.area, last.year);
                    identity(&last.area, last.year).record_key(&id)
                });
                json!([])
            }
        };
        let limit = question.limit();
        let request = json!({"axes_requested": ["population"], "filters": filters, "max_results": limit});
        let request: QueryRequest = serde_json::from_value(request).expect("it is a request");
        let query = Query::new(&request, &view.ontology, &view.state.entry.registration.axes_provided);
        let query = query.expect("it is valid");
        let answered = view.query(&query, at, None, after.as_deref(), ScanBudget::UNLIMITED).map_err(
            |error| match error {
                ScanError::Store(error) => error,
                other => StoreError::Unavailable { cause: other.to_string() },
            },
        )?;
        Ok(answered.found.into_iter().map(|hit| told(&hit.found, hit.content)).collect())
    }
}

/// A lookup by the key of an identity, as the routes do it.
fn lookup(view: &SourceView, area: &str, year: u16, at: Timestamp) -> Result<Vec<Told>, StoreError> {
    let mut all = Vec::new();
    for found in view.lookup(&identity(area, year).key(), &view.known, at)? {
        let found = found?;
        if let Some(content) = view.content(&found.statement)? {
            all.push(told(&found, content));
        }
    }
    Ok(all)
}

fn identity(area: &str, year: u16) -> Identity {
    Identity::new(vec![Typed::Text(area.to_owned()), Typed::Number(i64::from(year).into())])
}

fn told(found: &Found, mut content: Content) -> Told {
    let mut text = |axis: &str| match content.axes.remove(axis) {
        Some(Value::Text(text)) => text,
        _ => String::new(),
    };
    let Found { statement, version, .. } = found;
    Told {
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
