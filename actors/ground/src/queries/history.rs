//! The history of one value on both axes of time.

use super::{QueryError, QueryService};
use domain_ground::event::SourceReadKind;
use domain_ground::id::SourceId;
use domain_ground::query::answer::{KnownValue, ValueHistory};
use domain_ground::query::{QueryRequest, ValidatedQuery};
use domain_ground::source::{SourceAdapterKind, SourceAvailability};
use domain_ground::timeline::{RecordStatement, ReleaseHistory};
use oracled_store::ground::view::SourceView;
use std::ops::Bound;
use tokio::task::spawn_blocking;

/// The maximum number of periods in a history.
const PERIODS_MAX: usize = 10_000;

impl QueryService {
    /// The values that the subject which the filters of `request` fix has on its first axis, each with the periods of
    /// valid time and of system time in which a question gets it. One read is one entry in the log.
    ///
    /// # Errors
    /// The source cannot be queried, or the filters do not fix one subject.
    pub async fn value_history(
        &self,
        oracle_id: &SourceId,
        request: QueryRequest,
    ) -> Result<ValueHistory, QueryError> {
        let mut entry = self.open_entry(SourceReadKind::History, Some(oracle_id.clone()), &request);
        let read = self.read_history(oracle_id, request).await;
        if let Ok(history) = &read {
            entry.note_export(std::iter::empty(), history.values.len() as u64);
        }
        entry.set_error_outcome(read.as_ref().err());
        self.close_entry(entry).await?;
        read
    }

    async fn read_history(
        &self,
        oracle_id: &SourceId,
        request: QueryRequest,
    ) -> Result<ValueHistory, QueryError> {
        let view = self.store.view(oracle_id)?.ok_or_else(|| QueryError::SourceUnknown(oracle_id.clone()))?;
        if view.state.entry.registration.adapter_id == SourceAdapterKind::Http {
            return Err(QueryError::Live(oracle_id.clone()));
        }
        if let SourceAvailability::Silent(why) = view.state.entry.availability(self.clock.now()) {
            return Err(QueryError::Silent(why));
        }
        let permit = self.processor().await?;
        let read = spawn_blocking(move || {
            let _permit = permit;
            read_values(&view, &request)
        });
        read.await.map_err(|error| QueryError::Reading(error.to_string()))?
    }
}

fn read_values(view: &SourceView, request: &QueryRequest) -> Result<ValueHistory, QueryError> {
    let provided = &view.state.entry.registration.axes_provided;
    let query = ValidatedQuery::new(request, &view.ontology, provided)?;
    if !query.identity_is_whole {
        return Err(QueryError::TooCostly);
    }
    let path = request.axes_requested.first().cloned().unwrap_or_default();
    let releases = view.state.releases();
    let mut history = ReleaseHistory::new(&releases);
    let mut values = Vec::new();
    for record in view.records(&query.identity.key(), Bound::Unbounded)? {
        let record = record?;
        let times: Vec<RecordStatement> = record.times().copied().collect();
        for version in history.known_versions(&times) {
            let Some(statement) = record.statement(version.statement) else { continue };
            let content = view.content(&statement)?;
            values.push(KnownValue {
                record_id: view.record_id(statement.time.run, statement.position).unwrap_or_default(),
                valid_from: version.valid_from,
                valid_until: version.valid_until,
                known_from: version.known_from,
                known_until: version.known_until,
                value: content.and_then(|mut content| content.axes.remove(&path)),
            });
            if values.len() > PERIODS_MAX {
                return Err(QueryError::TooCostly);
            }
        }
    }
    let unit = view.ontology.axis(&path).and_then(|axis| axis.unit.clone());
    Ok(ValueHistory { unit, values })
}
