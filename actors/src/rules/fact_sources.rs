//! Facts from registered sources, for the check of a text (seeds: `rfc-0002-ground-truth`, "Query Contract", and
//! `oracle-a-rules`, which uses the facts).
//!
//! All entries are queried at once. If one entry gives no facts, the whole request fails. With fewer facts than intended,
//! a text could fail for the missing facts, or pass although they contradict it.

use crate::ground::queries::{Page, Queries, QueryError};
use crate::platform::caller::carried;
use crate::verification::{Verification, VerifyError};
use jiff::Timestamp;
use oracled_domain::ground::ontology::{Ontology, OntologyRef};
use oracled_domain::ground::query::{OracleQuery, QueryRequest};
use oracled_domain::rules::Check;
use oracled_domain::rules::sourced::{FACTS_FROM_MAX, FactSource, FactsFrom, NoFacts, within_bounds};
use oracled_domain::verification::workflow::Workflow;
use oracled_domain::verification::{Envelope, VerifyRequest};
use oracled_store::{Store, StoreError};
use std::sync::Arc;
use tokio::task::{JoinSet, spawn_blocking};

/// Why facts were not collected.
#[derive(Debug, thiserror::Error)]
pub enum FactsError {
    /// The number of entries is out of range.
    #[error("`facts_from` has {0} entries; 1 to {FACTS_FROM_MAX} are allowed")]
    Entries(usize),
    /// One entry gives no facts.
    #[error("facts_from[{place}]: {cause}")]
    Entry {
        /// The index of the entry, from 0.
        place: usize,
        /// The cause.
        cause: FactsCause,
    },
    /// The entries together give too many facts.
    #[error("`facts_from`: {0}")]
    Together(NoFacts),
    /// An internal error.
    #[error("could not collect the facts: {0}")]
    Inside(String),
}

/// Why one entry gives no facts.
#[derive(Debug, thiserror::Error)]
pub enum FactsCause {
    /// The query failed.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// The answer gives no facts.
    #[error(transparent)]
    None(#[from] NoFacts),
    /// The verification failed.
    #[error(transparent)]
    Verify(#[from] VerifyError),
    /// The ontology of a decision is missing.
    #[error("the ontology {0} is missing")]
    NoOntology(OntologyRef),
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An internal error.
    #[error("could not collect the facts: {0}")]
    Inside(String),
}

/// The service that collects facts from sources.
#[derive(Debug, Clone)]
pub struct FactSources {
    queries: Queries,
    verification: Verification,
    store: Store,
}

impl FactSources {
    pub(crate) const fn new(queries: Queries, verification: Verification, store: Store) -> Self {
        Self { queries, verification, store }
    }

    /// Returns `check` with the facts of `facts_from` after its own facts, in the order of the entries.
    ///
    /// # Errors
    /// `Entry` for the first entry that gives no facts; `Together` if the entries together give too many.
    pub async fn gathered(&self, check: Check, facts_from: Vec<FactsFrom>) -> Result<Check, FactsError> {
        let entries = facts_from.len();
        if !(1..=FACTS_FROM_MAX).contains(&entries) {
            return Err(FactsError::Entries(entries));
        }
        let mut asked = JoinSet::new();
        for (place, from) in facts_from.into_iter().enumerate() {
            let gatherer = self.clone();
            asked.spawn(carried(async move { (place, gatherer.of(from).await) }));
        }
        let mut given = Vec::with_capacity(entries);
        // all entries are read to their end: a verification is logged even if another entry fails
        let mut failed = Ok(());
        while let Some(ended) = asked.join_next().await {
            match ended {
                Ok(ended) => given.push(ended),
                Err(error) => failed = Err(FactsError::Inside(error.to_string())),
            }
        }
        failed?;
        given.sort_by_key(|(place, _)| *place);
        let told =
            |(place, given): (usize, Result<_, _>)| given.map_err(|cause| FactsError::Entry { place, cause });
        let sources: Vec<FactSource> = given.into_iter().map(told).collect::<Result<_, _>>()?;
        within_bounds(&sources).map_err(FactsError::Together)?;
        Ok(check.with_facts_from(sources))
    }

    async fn of(&self, from: FactsFrom) -> Result<FactSource, FactsCause> {
        match from {
            FactsFrom::Query(query) => self.of_query(*query).await,
            FactsFrom::Verify(request) => {
                let unknown = || VerifyError::WorkflowUnknown(request.workflow.clone());
                let (known, _) =
                    self.store.registered::<Workflow>(request.workflow.as_str())?.ok_or_else(unknown)?;
                let ontology = self.ontology(&known.document.ontology)?;
                // the decision checks later whether the requested time is in the future
                let at_any_time = Timestamp::MAX;
                request.read(&known.document, &ontology, at_any_time).map_err(VerifyError::from)?;
                // a workflow that can give no facts is not run, so no source is called and nothing is logged
                FactSource::is_possible_of(&known.document, &ontology, &request.axes)?;
                let envelope = self.verified(*request).await?;
                Ok(FactSource::of_envelope(&envelope, &self.ontology(&envelope.ontology)?)?)
            }
        }
    }

    fn ontology(&self, reference: &OntologyRef) -> Result<Ontology, FactsCause> {
        let found = self.store.ontology(reference)?;
        found.ok_or_else(|| FactsCause::NoOntology(reference.clone()))
    }

    async fn of_query(&self, asked: OracleQuery) -> Result<FactSource, FactsCause> {
        let view = self.store.view(&asked.oracle_id)?;
        let view = view.ok_or_else(|| QueryError::SourceUnknown(asked.oracle_id.clone()))?;
        let axes = asked.request.axes_requested.clone();
        FactSource::is_possible(&view.ontology, &axes, asked.request.cursor.as_deref())?;
        let request = QueryRequest { include_provenance: true, ..asked.request };
        let Page { answer, room } = // the text is checked even if its caller is gone
            self.queries.page(OracleQuery { request, ..asked }, Arc::new(|| true)).await?;
        let rendered = move || FactSource::of_answer(&answer, &axes, &view.ontology);
        if room.is_none() {
            return Ok(rendered()?);
        }
        // formatting a long answer takes time, and must not block other tasks of this thread
        let rendered = spawn_blocking(move || (rendered(), room)).await;
        let (rendered, _room) = rendered.map_err(|error| FactsCause::Inside(error.to_string()))?;
        Ok(rendered?)
    }

    /// Runs the verification and returns its envelope.
    async fn verified(&self, request: VerifyRequest) -> Result<Arc<Envelope>, FactsCause> {
        Ok(self.verification.verify(&request).await?)
    }
}

#[cfg(test)]
mod tests;
