//! Facts from registered sources, for the check of a text (seeds: `rfc-0002-ground-truth`, "Query Contract", and
//! `oracle-a-rules`, which uses the facts).
//!
//! All entries are queried at once. If one entry gives no facts, the whole request fails. With fewer facts
//! than intended, a text could fail for the missing facts, or pass although they contradict it.

use actors_ground::queries::{QueryAnswerPage, QueryError, QueryService};
use actors_platform::caller::run_as_current_caller;
use actors_verification::{VerificationService, VerifyError};
use domain_ground::ontology::{Ontology, OntologyRef};
use domain_ground::query::{OracleQuery, QueryRequest};
use domain_rules::CandidateCheck;
use domain_rules::sourced::{FACTS_FROM_MAX, FactSource, FactsFrom, NoFactsError, check_fact_limits};
use domain_verification::workflow::Workflow;
use domain_verification::{Envelope, VerifyRequest};
use jiff::Timestamp;
use oracled_store::{Store, StoreError};
use std::sync::Arc;
use tokio::task::{JoinSet, spawn_blocking};

/// Why facts were not collected.
#[derive(Debug, thiserror::Error)]
pub enum FactCollectionError {
    /// The number of entries is out of range.
    #[error("`facts_from` has {0} entries; 1 to {FACTS_FROM_MAX} are allowed")]
    Entries(usize),
    /// One entry gives no facts.
    #[error("facts_from[{index}]: {cause}")]
    Entry {
        /// The index of the entry, from 0.
        index: usize,
        /// The cause.
        cause: FactEntryError,
    },
    /// The entries together give too many facts.
    #[error("`facts_from`: {0}")]
    Together(NoFactsError),
    /// An internal error.
    #[error("could not collect the facts: {0}")]
    Inside(String),
}

/// Why one entry gives no facts.
#[derive(Debug, thiserror::Error)]
pub enum FactEntryError {
    /// The query failed.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// The answer gives no facts.
    #[error(transparent)]
    None(#[from] NoFactsError),
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
pub struct FactCollector {
    queries: QueryService,
    verification: VerificationService,
    store: Store,
}

impl FactCollector {
    pub const fn new(queries: QueryService, verification: VerificationService, store: Store) -> Self {
        Self { queries, verification, store }
    }

    /// Returns `check` with the facts of `facts_from` after its own facts, in the order of the entries.
    ///
    /// # Errors
    /// `Entry` for the first entry that gives no facts; `Together` if the entries together give too many.
    pub async fn collect_facts(
        &self,
        check: CandidateCheck,
        facts_from: Vec<FactsFrom>,
    ) -> Result<CandidateCheck, FactCollectionError> {
        let entries = facts_from.len();
        if !(1..=FACTS_FROM_MAX).contains(&entries) {
            return Err(FactCollectionError::Entries(entries));
        }
        let mut tasks = JoinSet::new();
        for (index, from) in facts_from.into_iter().enumerate() {
            let gatherer = self.clone();
            tasks.spawn(run_as_current_caller(
                async move { (index, gatherer.collect_entry_facts(from).await) },
            ));
        }
        let mut given = Vec::with_capacity(entries);
        // all entries are read to their end: a verification is logged even if another entry fails
        let mut failed = Ok(());
        while let Some(ended) = tasks.join_next().await {
            match ended {
                Ok(ended) => given.push(ended),
                Err(error) => failed = Err(FactCollectionError::Inside(error.to_string())),
            }
        }
        failed?;
        given.sort_by_key(|(index, _)| *index);
        let to_result = |(index, given): (usize, Result<_, _>)| {
            given.map_err(|cause| FactCollectionError::Entry { index, cause })
        };
        let sources: Vec<FactSource> = given.into_iter().map(to_result).collect::<Result<_, _>>()?;
        check_fact_limits(&sources).map_err(FactCollectionError::Together)?;
        Ok(check.with_facts_from(sources))
    }

    async fn collect_entry_facts(&self, from: FactsFrom) -> Result<FactSource, FactEntryError> {
        match from {
            FactsFrom::Query(query) => self.query_facts(*query).await,
            FactsFrom::Verify(request) => {
                let unknown = || VerifyError::WorkflowUnknown(request.workflow.clone());
                let (known, _) =
                    self.store.registered::<Workflow>(request.workflow.as_str())?.ok_or_else(unknown)?;
                let ontology = self.ontology(&known.document.ontology)?;
                // the decision checks later whether the requested time is in the future
                let at_any_time = Timestamp::MAX;
                request.read(&known.document, &ontology, at_any_time).map_err(VerifyError::from)?;
                // a workflow that can give no facts is not run, so no source is called and nothing is logged
                FactSource::check_workflow(&known.document, &ontology, &request.axes)?;
                let envelope = self.verify_envelope(*request).await?;
                Ok(FactSource::from_envelope(&envelope, &self.ontology(&envelope.ontology)?)?)
            }
        }
    }

    fn ontology(&self, reference: &OntologyRef) -> Result<Ontology, FactEntryError> {
        let found = self.store.ontology(reference)?;
        found.ok_or_else(|| FactEntryError::NoOntology(reference.clone()))
    }

    async fn query_facts(&self, query: OracleQuery) -> Result<FactSource, FactEntryError> {
        let view = self.queries.view(&query.oracle_id).await?;
        let (axes, point_in_time) = (query.request.axes_requested.clone(), query.request.point_in_time);
        FactSource::check_query(&view.ontology, &axes, query.request.cursor.as_deref())?;
        let request = QueryRequest { include_provenance: true, ..query.request };
        let QueryAnswerPage { answer, memory_permit: room } = // the text is checked even if its caller is gone
            self.queries.page(OracleQuery { request, ..query }, Arc::new(|| true)).await?;
        let rendered = move || FactSource::from_answer(&answer, &axes, point_in_time, &view.ontology);
        if room.is_none() {
            return Ok(rendered()?);
        }
        // formatting a long answer takes time, and must not block other tasks of this thread
        let rendered = spawn_blocking(move || (rendered(), room)).await;
        let (rendered, _room) = rendered.map_err(|error| FactEntryError::Inside(error.to_string()))?;
        Ok(rendered?)
    }

    /// Runs the verification and returns its envelope.
    async fn verify_envelope(&self, request: VerifyRequest) -> Result<Arc<Envelope>, FactEntryError> {
        Ok(self.verification.verify(&request).await?)
    }
}
