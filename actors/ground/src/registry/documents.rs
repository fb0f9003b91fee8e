//! Registration of ontologies and pipelines.

use super::{
    CommitContext, DerivedRows, DocumentChecks, DocumentRegistry, RegistryError, StatusReader, known_or_lost,
};
use crate::pull::{HttpValidators, PayloadPuller, PullError, PullRequest};
use crate::schedule::PullSchedule;
use actors_upstream::web::WebError;
use domain_base::caller::PeerCredentials;
use domain_base::document::Document;
use domain_ground::id::SourceId;
use domain_ground::ontology::Ontology;
use domain_ground::pipeline::tables::WordSource;
use domain_ground::pipeline::{PipelineDefinition, PipelineState};
use domain_ground::source::SourceAdapterKind;
use domain_ground::source_state::SourceState;
use oracled_store::{JournalRecord, RowExpectation, RowWrite};

/// Checks of ontologies.
#[derive(Debug)]
pub(super) struct OntologyChecks;

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
pub(super) struct PipelineChecks;

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
