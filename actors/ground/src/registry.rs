//! The registry of documents. Each change is one commit with its entry.
//!
//! `domain` decides whether a change is valid. The registry reads the rows, decides, and commits on the
//! condition that the rows have not changed meanwhile; otherwise it reads and decides again.

mod kind;
mod sources;

use crate::pull::{HttpValidators, PayloadPuller, PullError, PullRequest, PullSchedule};
use crate::registry::sources::put_source;
use actors_audit::logger::handle::CommitDecision;
use actors_audit::logger::{CommitError, LoggerHandle};
use actors_platform::clock::Clock;
use actors_upstream::Reloadable;
use actors_upstream::oracle::LiveOracle;
use actors_upstream::web::WebError;
use domain_base::caller::PeerCredentials;
use domain_base::digest::Sha256Hex;
use domain_base::document::{AnyDocument, Document, DocumentType, DocumentVersions, RegisteredDocument};
use domain_base::event::AuditEvent;
use domain_ground::event::{ConfirmationCause, ConfirmationEntry, SourceConfirmed};
use domain_ground::freshness::{AxisFreshnessLimits, FreshnessPolicy, FreshnessPolicyError};
use domain_ground::id::{PipelineId, SourceId};
use domain_ground::normalize::{PipelineDefinitionErrors, RecordNormalizer};
use domain_ground::ontology::{Ontology, OntologyError, OntologyRef};
use domain_ground::pipeline::{PipelineDefinition, PipelineState, WordSource, WordTable};
use domain_ground::source::{
    SourceAdapterKind, SourceAvailability, SourceRegistration, SourceRegistrationError, SourceRegistryEntry,
};
use domain_ground::source_state::SourceState;
pub use kind::{
    DocumentChecks, DocumentCounters, DocumentRegistration, DocumentState, FoundDocument, SourceAmendment,
    SourceDependents, StatusReader,
};
use oracled_domain::documents::{DocumentEntry, DocumentRegistered};
use oracled_store::ground::view::SourceView;
use oracled_store::{JournalRecord, PREVIEW_REVISION, RowExpectation, RowWrite, Store, StoreError};
use serde_json::Value as Json;
pub use sources::{SourceChecks, SourceInvalidation, SourceReviewDecision};
use std::error::Error;
use std::ops::Bound;
use std::sync::Arc;

/// Why nothing was registered or changed.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// The ontology is not registered.
    #[error("no ontology {0} is registered")]
    OntologyUnknown(OntologyRef),
    /// The source is not registered.
    #[error("no source {0} is registered")]
    SourceUnknown(SourceId),
    /// The pipeline is not registered.
    #[error("no pipeline {0} is registered")]
    PipelineUnknown(PipelineId),
    /// A version is immutable.
    #[error(
        "{kind} {document_id} is registered with other content, and a version is immutable; register this one under another `version`"
    )]
    VersionFixed { kind: &'static DocumentType, document_id: String },
    /// A pipeline cannot change its source.
    #[error("pipeline {pipeline_id} belongs to source {oracle_id}; register another pipeline")]
    PipelineFixed { pipeline_id: PipelineId, oracle_id: SourceId },
    /// Two pipelines of a snapshot source would withdraw each other's records.
    #[error(
        "source {oracle_id} is a `snapshot` and has pipeline {pipeline_id}: each pipeline would withdraw the records of \
         the other; change {pipeline_id}, or register a source for each"
    )]
    SecondPipeline {
        oracle_id: SourceId,
        /// The other pipeline.
        pipeline_id: PipelineId,
    },
    /// The ontology is invalid.
    #[error(transparent)]
    Ontology(#[from] OntologyError),
    /// The source, or its change, is invalid.
    #[error(transparent)]
    Source(#[from] SourceRegistrationError),
    /// The pipeline is invalid.
    #[error(transparent)]
    Pipeline(#[from] PipelineDefinitionErrors),
    /// The source of a table of words cannot be used.
    #[error("tables.{table}: {fault}")]
    Words { table: String, fault: String },
    /// The pipeline's retrieval settings are invalid.
    #[error("pipeline.retrieval: {0}")]
    Retrieval(String),
    /// The policy is invalid.
    #[error(transparent)]
    Policy(#[from] FreshnessPolicyError),
    /// The current policy of the source would become invalid.
    #[error(
        "the source's freshness policy would no longer be valid: {0}; first set a policy that is valid before and after"
    )]
    PolicyKept(FreshnessPolicyError),
    /// The source is live, so no data of it is ingested.
    #[error("source {0} is live (`adapter_id` is http); register an adapter for it instead of a pipeline")]
    Live(SourceId),
    /// A later feature does not accept a document of its own, or a change that its documents depend on.
    #[error("{error}")]
    Document { fault: DocumentFault, error: Box<dyn Error + Send + Sync> },
    /// The source's policy does not have the trigger.
    #[error("the freshness policy of source {oracle_id} has no trigger of the type {trigger}")]
    NoTrigger {
        oracle_id: SourceId,
        /// The type of the trigger.
        trigger: &'static str,
    },
    /// The source is not marked stale.
    #[error("source {0} is not marked stale")]
    NotInvalidated(SourceId),
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The change could not be committed.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

/// The kind of a fault that a later feature found in a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocumentFault {
    /// The document is invalid.
    Invalid,
    /// The change is not allowed.
    Fixed,
    /// The document names a source that is not registered.
    SourceUnknown,
}

impl RegistryError {
    /// The document is invalid.
    pub fn invalid(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Document { fault: DocumentFault::Invalid, error: error.into() }
    }
}

/// The registry of documents. A clone shares its state.
#[derive(Debug, Clone)]
pub struct DocumentRegistry {
    pub context: CommitContext,
    /// Checks that a pipeline can be pulled.
    puller: Reloadable<PayloadPuller>,
    /// Checks that an adapter can be called.
    pub live: Arc<dyn LiveOracle>,
    counters: Arc<[Arc<dyn DocumentCounters>]>,
    /// The kinds of each feature.
    kinds: &'static [&'static [&'static DocumentRegistration]],
    /// The documents that the configuration names.
    configured: Arc<[(&'static DocumentType, String)]>,
}

/// The context of every change.
#[derive(Debug, Clone)]
pub struct CommitContext {
    pub store: Store,
    pub log: LoggerHandle,
    pub clock: Clock,
}

impl DocumentRegistry {
    pub fn new(
        context: CommitContext,
        puller: Reloadable<PayloadPuller>,
        live: Arc<dyn LiveOracle>,
        counters: impl Into<Arc<[Arc<dyn DocumentCounters>]>>,
        kinds: &'static [&'static [&'static DocumentRegistration]],
        configured: impl Into<Arc<[(&'static DocumentType, String)]>>,
    ) -> Self {
        let (counters, configured) = (counters.into(), configured.into());
        Self { context, puller, live, counters, kinds, configured }
    }

    /// All kinds, in the order of their dependencies.
    pub fn kinds(&self) -> impl Iterator<Item = &'static DocumentRegistration> + use<> {
        self.kinds.iter().copied().flatten().copied()
    }

    /// The names of the documents of a kind that the configuration names.
    pub fn configured<D: Document>(&self) -> impl Iterator<Item = &str> {
        self.configured.iter().filter(|(kind, _)| *kind == D::TYPE).map(|(_, name)| name.as_str())
    }

    fn init_counters_of(&self, document: &AnyDocument) {
        self.counters.iter().for_each(|counters| counters.init_counters_of(document));
    }
}

/// The rows that a registration changes besides the document.
#[derive(Debug, Default)]
pub struct DerivedRows {
    /// The rows that must be unchanged.
    pub expect: Vec<RowExpectation>,
    pub writes: Vec<RowWrite>,
    /// Whether a row was lost, so that it is written even if the document is unchanged.
    pub is_lost: bool,
}

/// A row that is to be replaced, and its revision. A lost one has no value, and can be replaced.
fn known_or_lost<T>(
    row: Result<Option<(T, u64)>, StoreError>,
) -> Result<(Option<T>, Option<u64>), StoreError> {
    match row {
        Err(StoreError::RowLost { entry, .. }) => Ok((None, Some(entry))),
        row => Ok(row?.unzip()),
    }
}

impl CommitContext {
    /// The record that puts a document in place of the one with its id, with the rows that depend on it; `None` if the same
    /// document is registered already.
    pub fn replacement<D: Document>(
        &self,
        document: &D,
        derived: DerivedRows,
        peer: PeerCredentials,
    ) -> Result<Option<JournalRecord>, RegistryError> {
        let document_id = document.document_id();
        let stored = self.store.registered::<D>(&document_id);
        let (known, revision) = match D::VERSIONS {
            DocumentVersions::None => known_or_lost(stored)?,
            // a lost version could come back with other content
            DocumentVersions::Named | DocumentVersions::Numbered => stored?.unzip(),
        };
        let registered = RegisteredDocument::new(document.clone(), self.clock.now(), peer.uid.to_string());
        let DerivedRows { mut expect, mut writes, is_lost } = derived;
        match &known {
            Some(known) if known.sha256 == registered.sha256 && !is_lost => return Ok(None),
            Some(_) if D::VERSIONS != DocumentVersions::None => {
                return Err(RegistryError::VersionFixed { kind: D::TYPE, document_id });
            }
            _ => {}
        }
        let entry = DocumentEntry::new(known.as_ref().map(|known| &known.document), document, peer);
        let events = vec![AuditEvent::new(registered.registered_at, None, DocumentRegistered(entry))];
        expect.push(RowExpectation::new::<RegisteredDocument<D>>(&document_id, revision));
        writes.push(RowWrite::put(&registered));
        Ok(Some(JournalRecord { expect, events, writes, ..JournalRecord::default() }))
    }

    pub fn ontology(&self, reference: &OntologyRef) -> Result<Ontology, RegistryError> {
        let found = self.store.ontology(reference)?;
        found.ok_or_else(|| RegistryError::OntologyUnknown(reference.clone()))
    }

    pub fn source(&self, oracle_id: &SourceId) -> Result<(SourceState, u64), RegistryError> {
        self.store.source(oracle_id)?.ok_or_else(|| RegistryError::SourceUnknown(oracle_id.clone()))
    }

    /// The state of a pipeline, with its revision.
    pub(crate) fn pipeline_state(
        &self,
        pipeline_id: &PipelineId,
    ) -> Result<(PipelineState, u64), RegistryError> {
        let found = self.store.pipeline(pipeline_id)?;
        found.ok_or_else(|| RegistryError::PipelineUnknown(pipeline_id.clone()))
    }

    /// Checks that the pipelines of a snapshot source are only one: that of a release of all records. `pipeline_id` is
    /// the pipeline that is registered, if it is one.
    fn check_single_pipeline(
        &self,
        source: &SourceRegistration,
        pipeline_id: Option<&PipelineId>,
    ) -> Result<(), RegistryError> {
        if !source.snapshot {
            return Ok(());
        }
        let pipelines = self.store.pipelines()?.into_iter().map(|known| (known.oracle_id, known.pipeline_id));
        let of_source = pipelines.filter(|(oracle_id, _)| *oracle_id == source.oracle_id);
        let mut others = of_source.map(|(_, id)| id).filter(|id| Some(id) != pipeline_id);
        // a source that is registered may have one
        match others.nth(usize::from(pipeline_id.is_none())) {
            Some(other) => {
                Err(RegistryError::SecondPipeline { oracle_id: source.oracle_id.clone(), pipeline_id: other })
            }
            None => Ok(()),
        }
    }

    /// The current definition of a pipeline with its digest, prepared for its source. It has the words that the sources of its tables
    /// have now, so that the definition of a run does not change later. Reads all records of these sources.
    pub(crate) fn pipeline(&self, pipeline_id: &PipelineId) -> Result<PreparedPipeline, RegistryError> {
        let unknown = || RegistryError::PipelineUnknown(pipeline_id.clone());
        let definition = self.store.registered_definition(pipeline_id)?.ok_or_else(unknown)?;
        let (state, _) = self.source(&definition.pipeline.oracle_id)?;
        let definition = definition.with_words(|table, source| self.read_words(table, source))?;
        self.prepare_pipeline(definition, &state.entry)
    }

    /// The words that the records of a source have now.
    fn read_words(&self, table: &str, source: &WordSource) -> Result<WordTable, RegistryError> {
        let refused = |fault: String| RegistryError::Words { table: table.to_owned(), fault };
        let oracle_id = &source.oracle_id;
        let Some(view) = self.store.view(oracle_id)? else {
            return Err(refused(format!("source {oracle_id} has no release; ingest one first")));
        };
        let now = view.state.present(self.clock.now());
        if let SourceAvailability::Silent(why) = view.state.entry.availability(now) {
            return Err(refused(why));
        }
        let provided = &view.state.entry.registration.axes_provided;
        source.check(provided).map_err(|error| refused(error.to_string()))?;
        let released_at = view.state.entry.version_in_force(now).map(|version| version.released_at);
        let policy = policy_of(&view.state, &view.ontology);
        let freshness =
            policy.evaluate(&[&source.key, &source.value], released_at, view.state.stale_since(), now);
        if !freshness.answer.is_served() {
            return Err(refused(format!("source {oracle_id} is stale: {}", freshness.warnings.join("; "))));
        }
        let mut words = source.collector();
        for record in view.records(&[], Bound::Unbounded)? {
            if let Some(found) = SourceView::valid_at(&record?, &view.known, now)
                && let Some(content) = view.content(&found.statement)?
            {
                words.add(content).map_err(|error| refused(error.to_string()))?;
            }
        }
        words.into_table().map_err(|error| refused(error.to_string()))
    }

    /// Prepares a definition for its source.
    pub(crate) fn prepare_pipeline(
        &self,
        definition: PipelineDefinition,
        source: &SourceRegistryEntry,
    ) -> Result<PreparedPipeline, RegistryError> {
        let SourceRegistration { ontology, axes_provided, .. } = &source.registration;
        self.prepare_with_ontology(definition, self.ontology(ontology)?, axes_provided)
    }

    /// Prepares an accepted definition for the version of the ontology that it was accepted with. The source may have
    /// another version by now, or provide fewer axes.
    pub(crate) fn prepare_accepted_pipeline(
        &self,
        definition: PipelineDefinition,
        ontology: &OntologyRef,
    ) -> Result<PreparedPipeline, RegistryError> {
        let ontology = self.ontology(ontology)?;
        let axes: Vec<_> = ontology.axes.iter().map(|axis| axis.axis.clone()).collect();
        self.prepare_with_ontology(definition, ontology, &axes)
    }

    fn prepare_with_ontology(
        &self,
        definition: PipelineDefinition,
        ontology: Ontology,
        axes_provided: &[String],
    ) -> Result<PreparedPipeline, RegistryError> {
        let normalizer = RecordNormalizer::new(&definition, Arc::new(ontology), axes_provided)?;
        let sha256 = definition.digest();
        Ok(PreparedPipeline { definition: Arc::new(definition), sha256, normalizer: Arc::new(normalizer) })
    }
}

/// A pipeline that was prepared for its source.
#[derive(Debug, Clone)]
pub(crate) struct PreparedPipeline {
    pub(crate) definition: Arc<PipelineDefinition>,
    pub(crate) sha256: Sha256Hex,
    pub(crate) normalizer: Arc<RecordNormalizer>,
}

/// The freshness policy of a source: its own, or the default.
#[must_use]
pub fn policy_of(state: &SourceState, ontology: &Ontology) -> FreshnessPolicy {
    let registration = &state.entry.registration;
    let (id, frequency) = (registration.oracle_id.clone(), registration.update_frequency);
    let default = || FreshnessPolicy::default_for(id, frequency, &list_axis_bounds(state, ontology));
    state.policy.clone().unwrap_or_else(default)
}

/// The axes that a source provides, with the fields that a policy is checked against.
fn list_axis_bounds<'o>(state: &SourceState, ontology: &'o Ontology) -> Vec<AxisFreshnessLimits<'o>> {
    let provided = |axis: &str| state.entry.registration.axes_provided.iter().any(|name| name == axis);
    let axes = ontology.axes.iter().filter(|axis| provided(&axis.axis));
    axes.map(|axis| AxisFreshnessLimits {
        axis: &axis.axis,
        state_sensitive: axis.state_sensitive,
        max_ttl_seconds: axis.max_ttl_seconds,
    })
    .collect()
}

/// The kinds of documents of the feature.
pub const DOCUMENTS: &[&DocumentRegistration] = &[
    OntologyChecks::REGISTRATION,
    SourceChecks::REGISTRATION,
    sources::PolicyChecks::REGISTRATION,
    PipelineChecks::REGISTRATION,
];

/// The change by a registration.
#[derive(Debug, Clone, PartialEq)]
pub enum DocumentChange {
    /// No document of this id was registered.
    Created,
    /// The document replaces this one.
    Changed(Box<Json>),
    /// The same document was registered already.
    Unchanged,
}

impl DocumentChange {
    /// The change by the record of a registration.
    fn of(record: Option<&JournalRecord>) -> Self {
        let before = |record: &JournalRecord| {
            record.events.iter().find_map(|event| event.kind.get::<DocumentRegistered>()?.0.before.clone())
        };
        match record.map(before) {
            None => Self::Unchanged,
            Some(None) => Self::Created,
            Some(Some(before)) => Self::Changed(before),
        }
    }
}

impl DocumentRegistry {
    /// Registers a document, in place of the one with its id.
    ///
    /// # Errors
    /// Why it cannot be registered; or the entry cannot be committed, and then nothing changes.
    pub async fn register(
        &self,
        document: impl Into<AnyDocument>,
        peer: PeerCredentials,
    ) -> Result<DocumentChange, RegistryError> {
        let document = document.into();
        let decided = self.context.log.decide_and_commit(|| {
            let record = self.decide(&document, peer)?;
            let change = DocumentChange::of(record.as_ref());
            Ok::<_, RegistryError>(match record {
                Some(record) => CommitDecision::Change(change, record),
                None => CommitDecision::Already(change),
            })
        });
        let (change, _) = decided.await?;
        self.init_counters_of(&document);
        Ok(change)
    }

    /// Registers documents in their order in one commit: all of them, or none if one has a fault or with
    /// `dry_run`. Each is decided as if those before it were registered. Returns the change or the fault of
    /// each.
    ///
    /// # Errors
    /// The commit failed: nothing is registered.
    pub async fn register_all(
        &self,
        documents: &[AnyDocument],
        dry_run: bool,
        peer: PeerCredentials,
    ) -> Result<Vec<Result<DocumentChange, RegistryError>>, RegistryError> {
        let decided = self.context.log.decide_and_commit(|| {
            let (changes, record) = self.decide_all(documents, peer);
            let is_registered = !dry_run && !record.events.is_empty() && changes.iter().all(Result::is_ok);
            Ok::<_, RegistryError>(if is_registered {
                CommitDecision::Change(changes, record)
            } else {
                CommitDecision::Already(changes)
            })
        });
        let (changes, receipt) = decided.await?;
        if receipt.is_some() {
            documents.iter().for_each(|document| self.init_counters_of(document));
        }
        Ok(changes)
    }

    /// The changes or faults of the documents, and the record that registers those without a fault.
    fn decide_all(
        &self,
        documents: &[AnyDocument],
        peer: PeerCredentials,
    ) -> (Vec<Result<DocumentChange, RegistryError>>, JournalRecord) {
        let (mut all, mut registry) = (JournalRecord::default(), self.clone());
        let decided = documents.iter().map(|document| {
            let record = registry.decide(document, peer)?;
            let change = DocumentChange::of(record.as_ref());
            if let Some(JournalRecord { expect, events, writes, .. }) = record {
                registry.context.store.preview(&writes);
                // a row that an earlier document writes is as that document left it
                all.expect.extend(expect.into_iter().filter(|row| row.revision != Some(PREVIEW_REVISION)));
                all.events.extend(events);
                all.writes.extend(writes);
            }
            Ok(change)
        });
        let changes = decided.collect();
        (changes, all)
    }

    /// Decides on the registration of a document by the checks of its kind.
    fn decide(
        &self,
        document: &AnyDocument,
        peer: PeerCredentials,
    ) -> Result<Option<JournalRecord>, RegistryError> {
        (self.registration(document.document_type()).decide)(document, self, peer)
    }
}

#[derive(Debug, Clone)]
pub(crate) struct SourceConfirmation {
    pub(crate) confirmed_by: ConfirmationCause,
    /// The detail, for the log.
    pub(crate) detail: String,
    /// The operator, if there is one.
    pub(crate) peer: Option<PeerCredentials>,
    /// The number of invalidations when the source was asked. A later invalidation is not ended. `None` ends any.
    pub(crate) invalidation_count: Option<u64>,
}

impl CommitContext {
    /// Ends the invalidation of a source. Returns whether the source was marked stale.
    pub(crate) async fn confirm(
        &self,
        oracle_id: &SourceId,
        confirmation: SourceConfirmation,
    ) -> Result<bool, RegistryError> {
        let SourceConfirmation { confirmed_by, detail, peer, invalidation_count } = confirmation;
        let confirmed = self.log.decide_and_commit(|| {
            let (state, revision) = self.source(oracle_id)?;
            let is_last = invalidation_count.is_none_or(|declared| declared == state.invalidation_count);
            let Some(invalidated_at) = state.stale_since().filter(|_| is_last) else {
                return Ok::<_, RegistryError>(CommitDecision::Already(()));
            };
            let timestamp = self.clock.now();
            let entry = ConfirmationEntry {
                oracle_id: oracle_id.clone(),
                invalidated_at,
                confirmed_by,
                detail: detail.clone(),
                peer,
            };
            let event = AuditEvent::new(timestamp, None, SourceConfirmed(entry));
            Ok(CommitDecision::Change((), put_source(state.confirmed(timestamp), Some(revision), event)))
        });
        Ok(confirmed.await?.1.is_some())
    }
}

impl DocumentRegistry {
    /// Revokes that all data of a source is marked stale.
    ///
    /// # Errors
    /// `SourceUnknown`, `NotInvalidated`; or the entry cannot be committed, and then nothing changes.
    pub async fn confirm(
        &self,
        oracle_id: &SourceId,
        detail: String,
        peer: PeerCredentials,
    ) -> Result<(), RegistryError> {
        let confirmed_by = ConfirmationCause::Manual;
        let confirmation =
            SourceConfirmation { confirmed_by, detail, peer: Some(peer), invalidation_count: None };
        let confirmed = self.context.confirm(oracle_id, confirmation).await?;
        if confirmed { Ok(()) } else { Err(RegistryError::NotInvalidated(oracle_id.clone())) }
    }
}

/// Checks of ontologies.
#[derive(Debug)]
struct OntologyChecks;

impl DocumentChecks for OntologyChecks {
    type Document = Ontology;

    fn decide(
        ontology: &Ontology,
        registry: &DocumentRegistry,
        peer: PeerCredentials,
    ) -> Result<Option<JournalRecord>, RegistryError> {
        ontology.validate()?;
        registry.context.replacement(ontology, DerivedRows::default(), peer)
    }
}

/// Checks of pipelines.
#[derive(Debug)]
struct PipelineChecks;

impl DocumentChecks for PipelineChecks {
    type Document = PipelineDefinition;

    fn decide(
        definition: &PipelineDefinition,
        registry: &DocumentRegistry,
        peer: PeerCredentials,
    ) -> Result<Option<JournalRecord>, RegistryError> {
        let context = &registry.context;
        let (pipeline_id, oracle_id) = (&definition.pipeline.pipeline_id, &definition.pipeline.oracle_id);
        let (source, source_revision) = context.source(oracle_id)?;
        if source.entry.registration.adapter_id == SourceAdapterKind::Http {
            return Err(RegistryError::Live(oracle_id.clone()));
        }
        context.prepare_pipeline(definition.clone(), &source.entry)?;
        if let Some(table) =
            definition.tables.iter().find_map(|(id, table)| table.has_words_of_source().then_some(id))
        {
            let fault = "`words.from` is added by the daemon; write `words_from`".to_owned();
            return Err(RegistryError::Words { table: table.clone(), fault });
        }
        for (table, source) in definition.word_sources() {
            check_word_source(context, (table, source), oracle_id)?;
        }
        check_retrieval(definition, &registry.puller.get())?;
        let (known, revision) = known_or_lost(context.store.pipeline(pipeline_id))?;
        if let Some(known) = &known {
            if known.oracle_id != *oracle_id {
                let (pipeline_id, oracle_id) = (pipeline_id.clone(), known.oracle_id.clone());
                return Err(RegistryError::PipelineFixed { pipeline_id, oracle_id });
            }
        } else {
            context.check_single_pipeline(&source.entry.registration, Some(pipeline_id))?;
        }
        let state = PipelineState {
            pipeline_id: pipeline_id.clone(),
            oracle_id: oracle_id.clone(),
            pipeline_sha256: definition.digest(),
            registered_at: context.clock.now(),
            last_pull: known.as_ref().and_then(|known| known.last_pull),
        };
        let mut derived = DerivedRows {
            expect: vec![RowExpectation::new::<PipelineState>(pipeline_id, revision)],
            writes: vec![RowWrite::put(&state)],
            is_lost: known.is_none() && revision.is_some(),
        };
        if revision.is_none() {
            // the row of the source serializes new pipelines, since a snapshot has only one
            derived.expect.push(RowExpectation::new::<SourceState>(oracle_id, Some(source_revision)));
            derived.writes.push(RowWrite::put::<SourceState>(&source));
        }
        context.replacement(definition, derived, peer)
    }

    fn status_reader(
        registry: &DocumentRegistry,
    ) -> Result<StatusReader<'_, PipelineDefinition>, RegistryError> {
        Ok(Box::new(|definition| {
            let state = registry.context.store.pipeline(&definition.pipeline.pipeline_id)?;
            let last_pull = state.and_then(|(state, _)| state.last_pull);
            Ok(last_pull.map(|pull| format!("last pulled {}", pull.began_at)))
        }))
    }
}

/// Checks that a table of words is of another source with these axes. Its words are read when a run begins.
fn check_word_source(
    context: &CommitContext,
    (table, source): (&str, &WordSource),
    oracle_id: &SourceId,
) -> Result<(), RegistryError> {
    let refused = |fault: String| RegistryError::Words { table: table.to_owned(), fault };
    let (words, _) = context.source(&source.oracle_id)?;
    let registration = &words.entry.registration;
    if source.oracle_id == *oracle_id || registration.adapter_id == SourceAdapterKind::Http {
        return Err(refused(format!(
            "{} is this source, or is live; name another ingested source",
            source.oracle_id
        )));
    }
    source.check(&registration.axes_provided).map_err(|error| refused(error.to_string()))
}

/// Checks that `puller` can pull a pipeline and that its schedule is valid, as far as possible without a request. A
/// credential may be configured later.
fn check_retrieval(definition: &PipelineDefinition, puller: &PayloadPuller) -> Result<(), RegistryError> {
    let retrieval = &definition.pipeline.retrieval;
    let refuse = |fault: &str| RegistryError::Retrieval(fault.to_owned());
    match (retrieval.method.is_pull(), &retrieval.endpoint) {
        (true, None) => {
            return Err(refuse("`endpoint` is missing (required for api_pull and file_download)"));
        }
        (false, Some(_)) => return Err(refuse("`endpoint` is only allowed for api_pull and file_download")),
        _ => {}
    }
    if let Some(text) = &retrieval.schedule {
        if !retrieval.method.is_pull() {
            return Err(refuse("`schedule` is only allowed for api_pull and file_download"));
        }
        PullSchedule::parse(text).map_err(|error| refuse(&format!("`schedule`: {error}")))?;
    }
    match PullRequest::of(&definition.pipeline, HttpValidators::default())
        .map(|request| puller.check(&request))
    {
        Some(Err(error @ PullError::Web(WebError::NoCredential { .. }))) => {
            tracing::warn!(%error, "pipeline registered without its credential; it cannot be pulled yet");
            Ok(())
        }
        Some(Err(error)) => Err(refuse(&error.to_string())),
        Some(Ok(())) | None => Ok(()),
    }
}
